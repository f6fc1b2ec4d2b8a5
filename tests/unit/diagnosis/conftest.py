"""Fixture of diagnoses."""

import pytest

import fabricast as fc


@pytest.fixture
def causes(tmp_path):
    """Return a function that writes files and returns the causes of a diagnosis by name."""

    def diagnose(files, **known):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        diagnosis = fc.diagnose([tmp_path / name for name in files], **known)
        assert len(diagnosis.findings) <= 10
        gains = [finding.gain for finding in diagnosis.findings]
        assert gains == sorted(gains, reverse=True)
        return {finding.cause: finding for finding in reversed(diagnosis.findings)}

    return diagnose
