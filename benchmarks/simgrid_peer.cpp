// SimGrid on the same graphs: per-flow max-min by its flow-level model.
//
// Usage: simgrid_peer WORK.txt RESULT.txt. One-way links with latency 0, one actor that starts all communications
// of a graph and waits for all of them; all graphs in one simulation. Only the simulation itself is timed.
//
// WORK.txt: endpoints, links, routes, graphs, bytes of a message; the capacity of each link; for each route source,
// target, length, links; for each graph length, sources and targets in turn.
// RESULT.txt: CPU seconds, then when each communication ends, from the start of its graph.

#include <cstdio>
#include <ctime>
#include <fstream>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

int main(int argc, char** argv)
{
  if (argc != 3)
    return 2;
  std::vector<std::string> flags{"simgrid_peer", "--log=root.thres:critical", "--cfg=network/model:CM02",
                                 "--cfg=network/crosstraffic:0", "--cfg=network/TCP-gamma:0",
                                 "--cfg=network/optim:Full"};
  std::vector<char*> pointers;
  for (auto& flag : flags)
    pointers.push_back(flag.data());
  int count = static_cast<int>(pointers.size());
  sg4::Engine engine(&count, pointers.data());

  std::ifstream work(argv[1]);
  size_t endpoints, link_count, route_count, graph_count;
  double size_bytes;
  work >> endpoints >> link_count >> route_count >> graph_count >> size_bytes;
  auto* zone = sg4::create_full_zone("zone");
  std::vector<sg4::Host*> hosts;
  for (size_t i = 0; i < endpoints; ++i)
    hosts.push_back(zone->create_host("h" + std::to_string(i), 1e9));
  std::vector<sg4::Link*> links;
  for (size_t i = 0; i < link_count; ++i) {
    double capacity;
    work >> capacity;
    links.push_back(zone->create_link("l" + std::to_string(i), capacity)->set_latency(0)->seal());
  }
  for (size_t i = 0; i < route_count; ++i) {
    size_t source, target, length, number;
    work >> source >> target >> length;
    std::vector<sg4::LinkInRoute> path;
    for (size_t k = 0; k < length; ++k) {
      work >> number;
      path.emplace_back(links[number]);
    }
    zone->add_route(hosts[source]->get_netpoint(), hosts[target]->get_netpoint(), nullptr, nullptr, path, false);
  }
  zone->seal();
  std::vector<std::vector<std::pair<size_t, size_t>>> graphs(graph_count);
  for (auto& pairs : graphs) {
    size_t length;
    work >> length;
    pairs.resize(length);
    for (auto& [source, target] : pairs)
      work >> source >> target;
  }
  if (!work)
    return 2;

  std::vector<double> ends;
  sg4::Actor::create("driver", hosts[0], [&] {
    std::vector<sg4::CommPtr> running;
    for (const auto& pairs : graphs) {
      const double begin = sg4::Engine::get_clock();
      running.clear();
      for (const auto& [source, target] : pairs)
        running.push_back(sg4::Comm::sendto_async(hosts[source], hosts[target], static_cast<uint64_t>(size_bytes)));
      for (auto& one : running)
        one->wait();
      for (auto& one : running)
        ends.push_back(one->get_finish_time() - begin);
    }
  });
  const std::clock_t started = std::clock();
  engine.run();
  const double cpu_s = static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC;

  std::FILE* result = std::fopen(argv[2], "w");
  if (result == nullptr)
    return 2;
  std::fprintf(result, "%.17g\n", cpu_s);
  for (double end : ends)
    std::fprintf(result, "%.17g\n", end);
  return std::fclose(result) == 0 ? 0 : 2;
}
