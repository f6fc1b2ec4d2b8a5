"""Compiled kernels of the packet simulator: arrays in, arrays out.

A copy is a source queue of identical packets and a route: a sequence of steps, one per link. Each link has a
transmitter (idle or busy), a round-robin arbiter, and credits for the input buffer at its receiving end. That buffer is
one FIFO queue, or one queue per output link (virtual output queues). A packet is a slot of a queue with the number of
its next step. `_run_graph` in `simulator` repeats two actions: advance the clock to the next event (`_next_tick`), and
process this tick (`_run_tick`) in a fixed order:

1. Transmissions that end make their link idle. When the last piece of a packet has left a buffer, its credits
   return to the sender of the previous link.
2. Packets that arrive enter the queue of their next step. The target consumes them at once and returns their credits.
3. Copies start, if the start time is reached and the copy program permits it.
4. Credits that were delayed by the link latency arrive.
5. Arbitration rounds. An idle link is requested when it becomes idle, receives credits, or is the next step of a new
   queue head. A requested link serves its queues round-robin, beginning after the last one served. The first queue
   whose head packet needs the link transmits it if the credits suffice. Otherwise the link waits and this queue keeps
   its turn. All grants of a round precede all removals from queues, and new queue heads request their links in the
   next round of the same tick. The rounds end when no link is requested.

A root complex splits a packet at one step: the packet stays at the head of its queue until all pieces are sent, and
each piece is a separate packet from then on. All times are integer ticks, and all grants of a round depend only on
the state at its start. Results are therefore exact and independent of the order in which links are visited. Repeating
states are skipped in `periods`. Indices are `np.uint32`, because signed indices need a check for negative values.
"""
