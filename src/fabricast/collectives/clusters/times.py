"""Times of NCCL's algorithms over NVLink and between nodes.

The formulas keep the structure of the kernels: a ring moves one chunk in each step, a tree fills its levels with the
first chunk and then streams, and NVLS passes chunks through the stages scatter, reduce and gather. Rates are in
bytes/s, times in s, sizes in bytes as nccl-tests counts them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fabricast.collectives.clusters.cluster import EFA, SLINGSHOT, Cluster
from fabricast.nccl.costs import Algorithm, Operation, Protocol
from fabricast.nccl.hosts import Graphs, channels_for_use, host_graphs, ll128_limits, ll_limit
from fabricast.nccl.schedule import channels_in_use, ring_chunks

#: Name of a factor of the PCIe links of cards.
PCIE_FACTOR = "pcie_factor"
#: Algorithm and protocol.
Pair = tuple[Algorithm, Protocol]
_Array = NDArray[np.float64]
_GB = 1e9
#: Share of data in the traffic of a protocol.
_DATA = {Protocol.LL: 0.5, Protocol.LL128: 15 / 16, Protocol.SIMPLE: 1.0}
#: Rate of one channel of Simple, in GB/s.
_SIMPLE_CHANNEL = 40.0
#: Chunks of a channel in bytes: trees, and broadcast and reduce.
_TREE_CHUNK = {Protocol.LL: 32 << 10, Protocol.LL128: 576_000, Protocol.SIMPLE: 512 << 10}
_CHAIN_CHUNK = {Protocol.LL: 32 << 10, Protocol.LL128: 576_000, Protocol.SIMPLE: 128 << 10}
#: Chunks of a channel and head of NVLS, halved for small sizes; of its trees from some number of nodes on.
_NVLS_CHUNK, _MANY_NODES = 128 << 10, 4
#: Chunks below some number of the largest chunks over all channels and heads.
_NVLS_CHUNKS = ((64, 64 << 10), (8, 32 << 10), (2, 16 << 10))
_NVLS_TREE_CHUNKS = ((4, 64 << 10), (1, 32 << 10))
#: Stages of NVLS beyond the chunks: until scatter, reduce and gather all work.
_NVLS_STAGES, _NVLS_STAGES_BLACKWELL = 1.5, 3.5
#: Share of the rate of NVLS on Blackwell in relation to Hopper, and of a channel of a send on Ampere.
_NVLS_BLACKWELL, _CHANNEL_AMPERE = 0.87, 0.67
#: Peers of one round of sends and receives, and bytes up to which they use LL.
_PEERS, _SEND_LL = 8, 32 << 10
#: Bytes of a channel from which a message of LL passes a proxy thread of libfabric.
_PROXY_BYTES = 4096
#: Ranks for each channel of sends over the network, above which a pair has fewer of them.
_RANKS_OF_CHANNELS = 4
#: Mean rate of a channel of a send between nodes, in GB/s, that determines the number of channels since a version.
_CHANNEL_GB_PER_S, _BY_RATE = 14.0, (2, 29, 0)


@dataclass(frozen=True)
class _Latency:
    """Latency of a hop within a node and between nodes."""

    near: float
    far: float


class ClusterTimes:
    """Times of one operation on one cluster.

    Arguments: cluster: cluster, with GPUs of NVIDIA.
    """

    def __init__(self, cluster: Cluster, operation: Operation, known: Mapping[str, float]) -> None:
        self.cluster, self.operation, self.known = cluster, operation, known
        self._hosts = cluster.hosts

    @cached_property
    def graphs(self) -> Graphs:
        """Channels of NCCL's search."""
        return host_graphs(self._hosts)

    @cached_property
    def _network(self) -> str:
        """Return the first word of the constants of the network: EFA has the rate of Slingshot over libfabric."""
        return {SLINGSHOT: "slingshot", EFA: "efa"}.get(self.cluster.network, "verbs")

    @cached_property
    def _is_libfabric(self) -> bool:
        return self.cluster.nodes > 1 and self._network != "verbs"

    @cached_property
    def _depth(self) -> int:
        return math.floor(math.log2(self.cluster.nodes))

    @cached_property
    def nvlink_bytes_per_s(self) -> float:
        """Rate that rings reach over NVLink."""
        name = "mesh_share"
        if self.cluster.fabric == "NVSwitch":
            name = "switch_share_blackwell" if self._hosts.generation >= 10 else "switch_share"
        rate = self.known[name] * self.cluster.nvlink_bytes_per_s
        if self.cluster.nodes == 1:
            rings = self.graphs.rings
            rate *= min(1.0, rings.channels * rings.intra / self._hosts.nvlink_gb_per_s)
        return rate if self.cluster.gpus > 1 else math.inf

    @cached_property
    def cards_bytes_per_s(self) -> float:
        """Rate that rings reach over all network cards of a node; infinite for one node."""
        cluster = self.cluster
        if cluster.nodes == 1:
            return math.inf
        share = self.known["slingshot_share" if self._is_libfabric else "verbs_share"]
        wire = cluster.card_gbit_s / 8 * _GB / cluster.oversubscription
        return cluster.cards * min(share * wire, self._card_pcie_bytes_per_s)

    @property
    def _card_pcie_bytes_per_s(self) -> float:
        """Return the rate of PCIe for each card; `ClusterModel.limits` changes the factor.

        All data of the cards pass through the links of the GPUs, too, which fewer GPUs than cards share.
        """
        cluster = self.cluster
        of_gpus = cluster.gpu_link_bytes_per_s * cluster.gpus / cluster.cards
        return self.known.get(PCIE_FACTOR, 1.0) * min(cluster.pcie_bytes_per_s, of_gpus)

    def channels(self, pair: Pair, size: _Array) -> NDArray[np.int64]:
        """Return the channels in use at each size."""
        algorithm, protocol = pair
        settings = self.cluster.settings
        most = channels_for_use(self._hosts, algorithm, least=settings.least_channels, most=settings.most_channels)
        if algorithm not in (Algorithm.RING, Algorithm.TREE):
            return np.full(size.shape, most, dtype=np.int64)
        rings = self.graphs.rings
        speed = rings.channels * rings.speed(self.cluster.nodes)
        return channels_in_use(
            self.operation, algorithm, protocol, size, ranks=self.cluster.ranks, channels=most, ring_gb_per_s=speed
        )

    def times(self, pair: Pair, size: _Array) -> _Array:
        """Return the time of an algorithm and protocol at each size."""
        size = np.asarray(size, dtype=np.float64)
        algorithm, protocol = pair
        channels = self.channels(pair, size)
        if algorithm is Algorithm.DIRECT:
            found = self._alltoall(size) if self.operation is Operation.ALLTOALL else self._sendrecv(size)
        elif algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE):
            found = self._nvls(algorithm, size, channels)
        elif self.operation in (Operation.BROADCAST, Operation.REDUCE):
            found = self._chain(protocol, size, channels)
        elif algorithm is Algorithm.TREE:
            found = self._tree(protocol, size, channels)
        else:
            found = self._ring(protocol, size, channels)
        whole: _Array = np.maximum(found, self._launch(channels))
        return whole

    def _launch(self, channels: NDArray[np.int64]) -> _Array:
        """Return the time of launching the kernels of all GPUs of a process."""
        gpus = self.cluster.process_gpus
        if gpus == 1:
            return np.zeros(channels.shape)
        of_gpu = self.known["launch"] + self.known["launch_channel"] * (channels - 1)
        return np.asarray(gpus * of_gpu, dtype=np.float64)

    def _latency(self, protocol: Protocol) -> _Latency:
        known = self.known
        near = known[f"nvlink_{protocol}"]
        if protocol is Protocol.LL and self.cluster.fabric == "NVSwitch" and self._hosts.generation < 9:
            near = known["nvlink_ll_old"]
        if self._is_libfabric:
            beyond_ll = known["verbs_ll128"] - known["verbs_ll"] if protocol is Protocol.LL128 else 0.0
            name = f"{self._network}_{'simple' if protocol is Protocol.SIMPLE else 'll'}"
            return _Latency(near, known[name] + beyond_ll)
        return _Latency(near, known[f"verbs_{protocol}"])

    def _start(self, protocol: Protocol) -> float:
        return self.known["start"] + (self.known["simple_start"] if protocol is Protocol.SIMPLE else 0.0)

    def _limits(self, protocol: Protocol, channels: NDArray[np.int64]) -> tuple[_Array, _Array]:
        """Return the rate of data within a node and over all cards of a node."""
        data, hosts = _DATA[protocol], self._hosts
        near = np.full(channels.shape, data * self.nvlink_bytes_per_s)
        far = np.full(channels.shape, data * self.cards_bytes_per_s)
        if self.cluster.settings.most_channels is not None:
            # A channel enters and leaves a node over one card. NCCL's own choice has a channel for each card, but for
            # small sizes, where the fitted latencies include it.
            near = np.minimum(near, channels * data * _SIMPLE_CHANNEL * _GB)
            far = far * np.minimum(1.0, channels / self.cluster.cards)
        if protocol is Protocol.LL:
            most = channels_for_use(hosts, Algorithm.RING)
            inside = self.known["ll_share_one"] * ll_limit(hosts, several_hosts=False) * _GB
            near = np.minimum(near, inside * channels / most)
            if hosts.hosts > 1:
                far = np.minimum(far, self.known["ll_share"] * ll_limit(hosts, several_hosts=True) * _GB)
        elif protocol is Protocol.LL128:
            near = np.minimum(near, channels * ll128_limits(hosts).ring * _GB)
        return near, far

    def _proxy(self, protocol: Protocol, chunk: _Array, channels: NDArray[np.int64]) -> tuple[_Array, _Array]:
        """Return the time of the proxy threads of libfabric: in a hop between nodes, and at least in each step."""
        if protocol is not Protocol.LL or self.cluster.nodes == 1 or self.cluster.network != SLINGSHOT:
            return np.zeros(chunk.shape), np.zeros(chunk.shape)
        messages = np.maximum(1.0, channels / self.cluster.cards)
        is_message = chunk / channels >= _PROXY_BYTES
        one = np.where(is_message, self.known["slingshot_message"], 0.0)
        of_hop: _Array = one * (1 + messages)
        of_step: _Array = 2 * one * messages
        return of_hop, of_step

    def _ring(self, protocol: Protocol, size: _Array, channels: NDArray[np.int64]) -> _Array:
        """Return the time of a ring: loops of steps; the share nodes / ranks of the steps is between nodes."""
        cluster = self.cluster
        chunks = ring_chunks(
            self.operation, protocol, size, channels, cluster.ranks, buffer_size=cluster.settings.buffer_size
        )
        steps, nodes = chunks.steps, cluster.nodes
        far_steps = 0 if nodes == 1 else min(steps, math.ceil(steps * nodes / cluster.ranks))
        latency = self._latency(protocol)
        mean = ((steps - far_steps) * latency.near + far_steps * latency.far) / steps
        near, far = self._limits(protocol, channels)
        rate = np.minimum(near, far)
        exposed = np.full(size.shape, mean)
        if protocol is Protocol.SIMPLE:
            exposed = mean / (1 + (chunks.bytes / (rate * mean * self.known["hidden_ratio"])) ** 2)
        of_hop, of_step = self._proxy(protocol, chunks.bytes, channels)
        step = np.maximum(chunks.bytes / rate + exposed + of_hop * far_steps / steps, of_step)
        whole: _Array = self._start(protocol) + chunks.loops * steps * step
        return whole

    def _tree_chunk(self, protocol: Protocol, size: _Array, channels: NDArray[np.int64]) -> _Array:
        """Return the chunk of a channel of trees: LL128 uses smaller ones for small sizes."""
        chunk = np.full(size.shape, float(_TREE_CHUNK[protocol]))
        if protocol is Protocol.LL128:
            depth = 1 + self._depth + 0.1 * self.cluster.gpus
            for parts, least in ((64, 128 << 10), (16, 32 << 10)):
                most = parts * depth / self.cluster.gpus
                for _ in range(5):
                    is_large = (size / (channels * chunk) < most) & (chunk > least)
                    chunk = np.where(is_large, chunk / 2, chunk)
        return chunk

    def _tree(self, protocol: Protocol, size: _Array, channels: NDArray[np.int64]) -> _Array:
        """Return the time of double binary trees between nodes over chains within them."""
        cluster, known = self.cluster, self.known
        near, far = self._limits(protocol, channels)
        if protocol is Protocol.SIMPLE:
            near = np.minimum(near, channels * _SIMPLE_CHANNEL * _GB)
        first = np.minimum(size, channels * self._tree_chunk(protocol, size, channels))
        latency = self._latency(protocol)
        # On two nodes each card transfers every byte once in each direction, with more nodes twice.
        part, times_of_card = (0.5, 1.0) if cluster.nodes <= 2 else (known["fill"], 2.0)
        of_hop, of_step = self._proxy(protocol, first, channels)
        filling = (cluster.gpus - 1) * (latency.near + first / near)
        filling = filling + self._depth * (latency.far + of_hop + part * first / far)
        stream = np.minimum(near / 2, far / times_of_card)
        if protocol is Protocol.SIMPLE and cluster.nodes > 1 and self._hosts.generation >= 10:
            # With NCCL_ALGO=Tree, B200 reach 335 GB/s on two nodes and 192 GB/s on four and eight, on two public
            # clusters (github togethercomputer/together-nccl-tests): the rate of the channels, not that of the cards.
            stream = np.minimum(stream, channels * known["network_channel"] * _GB / times_of_card)
        if protocol is Protocol.LL128:
            limit = known["tree_ll128_share"] * ll128_limits(self._hosts).tree * _GB
            stream = np.minimum(stream, limit * channels / 4)
        rest = np.maximum((size - first) / stream, (size - first) / first * of_step * times_of_card)
        whole: _Array = self._start(protocol) + 2 * filling + rest
        return whole

    def _nvls(self, algorithm: Algorithm, size: _Array, channels: NDArray[np.int64]) -> _Array:
        """Return the time of NVLS on one node, or of its trees between nodes."""
        cluster, known, graph = self.cluster, self.known, self.graphs.nvls
        assert graph is not None, "NVLS needs NVSwitch"
        heads, ranks = graph.channels, cluster.ranks
        is_tree = algorithm is Algorithm.NVLS_TREE
        whole = channels * heads * float(_NVLS_CHUNK)
        first = 64 << 10 if is_tree and cluster.nodes >= _MANY_NODES else _NVLS_CHUNK
        chunk = np.full(size.shape, float(first))
        for count, smaller in _NVLS_TREE_CHUNKS if is_tree else _NVLS_CHUNKS:
            chunk = np.where(size < count * whole, np.minimum(chunk, smaller), chunk)
        group = channels * heads * chunk
        is_reduce = self.operation is Operation.ALL_REDUCE
        share = ranks / (ranks + 1) if is_reduce else ranks / (ranks - 1)
        is_blackwell = self._hosts.generation >= 10
        rate = known["nvls_share"] * cluster.nvlink_bytes_per_s * share * (_NVLS_BLACKWELL if is_blackwell else 1.0)
        if is_tree:
            rate = known["nvls_tree_share"] * min(rate, self.cards_bytes_per_s / (1 if cluster.nodes == 2 else 2))
        stages = _NVLS_STAGES_BLACKWELL if is_blackwell and cluster.nodes == 1 else _NVLS_STAGES
        loops = np.maximum(1.0, size / group) + stages
        far = self._latency(Protocol.SIMPLE).far
        found: _Array = known["start"] + loops * (known["nvls_chunk"] + np.minimum(size, group) / rate)
        return found + 2 * self._depth * far * is_tree

    def _chain(self, protocol: Protocol, size: _Array, channels: NDArray[np.int64]) -> _Array:
        """Return the time of broadcast and reduce: the first chunk passes all GPUs, the others follow."""
        cluster = self.cluster
        near, far = self._limits(protocol, channels)
        if protocol is Protocol.SIMPLE:
            near = np.minimum(near, channels * _SIMPLE_CHANNEL * _GB)
        latency = self._latency(protocol)
        first = np.minimum(size, channels * float(_CHAIN_CHUNK[protocol]))
        hops = (cluster.ranks - cluster.nodes) * latency.near + (cluster.nodes - 1) * latency.far
        # The chunk passes ranks - 1 hops, the last of which is part of the stream.
        between = cluster.nodes - 1
        fill = (cluster.ranks - 2 - between) * first / (2 * near) + between * first / (2 * far)
        whole: _Array = self.known["start"] + hops + fill + size / np.minimum(near, far)
        return whole

    def _hop(self) -> float:
        latency = self._latency(Protocol.SIMPLE)
        return latency.near if self.cluster.nodes == 1 else latency.far

    def _alltoall(self, size: _Array) -> _Array:
        """Return the time of alltoall: parts within the node and over the cards at the same time."""
        cluster, known = self.cluster, self.known
        gpus, ranks = cluster.gpus, cluster.ranks
        start = known["start"] + np.where(size / ranks > _SEND_LL, known["simple_start"], 0.0)
        nvlink = known["pair_share"] * cluster.nvlink_bytes_per_s
        near = np.zeros(size.shape)
        if gpus > 1:
            # Over direct links each pair has its own; a switch shares the links of a GPU.
            near = size / ranks * (gpus - 1) / nvlink
        far = np.zeros(size.shape)
        if cluster.nodes > 1:
            wire = cluster.card_gbit_s / 8 * _GB / cluster.oversubscription
            card = min(known["card_pair_share"] * wire, self._card_pcie_bytes_per_s)
            far = (ranks - gpus) / ranks * size * gpus / (cluster.cards * card)
        rounds = math.ceil((ranks - 1) / _PEERS)
        whole: _Array = start + rounds * self._hop() + np.maximum(near, far)
        return whole

    def _sendrecv(self, size: _Array) -> _Array:
        """Return the time of sendrecv, each rank to the next one."""
        cluster, known = self.cluster, self.known
        channel = known["nvlink_channel"] * _GB * (_CHANNEL_AMPERE if self._hosts.generation < 9 else 1.0)
        rates = [known["pair_share"] * cluster.nvlink_bytes_per_s, self._pair_channels(2 * cluster.links) * channel]
        if cluster.fabric != "NVSwitch" and cluster.gpus > 2:
            # Over direct links a pair has its own ones.
            rates[0] /= cluster.gpus - 1
            rates[1] = self._pair_channels(2 * cluster.links / (cluster.gpus - 1)) * channel
        if cluster.gpus == 1:
            rates = []
        if cluster.nodes > 1:
            count = 2
            if cluster.settings.version >= _BY_RATE:
                count = max(count, math.ceil(cluster.card_gbit_s / 8 / _CHANNEL_GB_PER_S))
            count = self._pair_channels(count)
            while count > 1 and count * cluster.ranks > _RANKS_OF_CHANNELS * self._most_pair_channels:
                # Many ranks share the channels of sends, so that a pair over the network gets fewer.
                count //= 2
            rates.append(count * known["network_channel"] * _GB)
            rates.append(self.cards_bytes_per_s / cluster.cards)
        whole: _Array = self._start(Protocol.SIMPLE) + self._hop() + size / min(rates)
        return whole

    def _pair_channels(self, wanted: float) -> int:
        """Return the channels of a peer: a power of two, fewer if there are many peers."""
        count = 1 << math.ceil(math.log2(max(wanted, 1)))
        while count > 1 and count * math.ceil(self.cluster.ranks / 8) > self._most_pair_channels:
            count //= 2
        return count

    @property
    def _most_pair_channels(self) -> int:
        """Return the number of channels that sends and receives share."""
        return max(channels_for_use(self._hosts, Algorithm.RING), 32)
