"""Find the fastest order of a halo exchange among all there are."""

# %% Eight GPUs in a grid of 2 x 2 x 2, each with three neighbours: 1,679,616 orders.
from fabricast.pcie.schedules import enumerate_schedules
from fabricast.pcie.patterns import halo_pattern
from fabricast.pcie.topology_files import load_tree

tree = load_tree("storm8")
pattern = halo_pattern((2, 2, 2), len(tree.endpoint_names), size_bytes=256 * 1024)
print(f"{pattern.name}: {pattern.schedules:,} schedules")

# %% All of them, each GPU sending as soon as it can.
search = enumerate_schedules(tree, pattern, "asynchronous", bandwidth_bytes_per_s=11.6 * 2**30, tau=0.1735, top=3)
for rank, plan in enumerate(search.best, start=1):
    print(f"{rank}. {1e6 * plan.elapsed_s:.2f} us: {plan.text(tree.endpoint_names)}")

# %% What the order is worth.
print(f"naive order {1e6 * search.naive.elapsed_s:.2f} us, slowest {1e6 * search.worst.elapsed_s:.2f} us")
print(f"the best is {'proved optimal' if search.gap < 1e-9 else f'within {search.gap:.1%} of the bound'}")
