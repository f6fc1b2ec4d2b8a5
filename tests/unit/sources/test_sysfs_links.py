"""Link attributes of /sys: which links are narrow, and which ports only have narrow devices."""

import fabricast as fc

WIDE = "/sys/bus/pci/devices/0000:00:01.0/"
CARD = "==> /sys/class/drm/card1/device/"


def _attributes(path, current, most, speed="16.0"):
    values = {"current_link_width": current, "max_link_width": most, "current_link_speed": f"{speed} GT/s PCIe"}
    values["max_link_speed"] = "16.0 GT/s PCIe"
    mark = "{0}{1} <==\n{2}\n\n" if path.startswith("==>") else "{0}{1}:{2}\n"
    return "".join(mark.format(path, name, value) for name, value in values.items())


def _diagnose(tmp_path, text):
    (tmp_path / "links.txt").write_text(text)
    return fc.diagnose(tmp_path / "links.txt")


def test_a_narrow_link_is_named_in_both_forms(tmp_path):
    for path, name in ((WIDE, "0000:00:01.0"), (CARD, "card1")):
        found = _diagnose(tmp_path, _attributes(path, 8, 16))
        assert [one.cause for one in found.findings] == ["narrow_link"]
        assert found.findings[0].text.startswith(f"{name}: a link uses x8 of x16")


def test_a_port_with_a_narrow_device_is_a_note(tmp_path):
    found = _diagnose(tmp_path, _attributes(WIDE, 4, 16) + _attributes("/sys/bus/pci/devices/0000:01:00.0/", 4, 4))
    assert not found.findings
    assert any("uses x4 of x16, maybe since its device has x4" in note for note in found.statements)


def test_idle_and_full_links_state_no_fault(tmp_path):
    found = _diagnose(tmp_path, _attributes(WIDE, 16, 16, "2.5"))
    assert not found.findings and any("2.5 of 16 GT/s, which is normal" in note for note in found.statements)
    found = _diagnose(tmp_path, _attributes(WIDE, 16, 16) + _attributes("/sys/bus/pci/devices/0000:02:00.0/", 63, 255))
    assert not found.findings and any("links of 2 devices run at full speed" in note for note in found.statements)
