"""What other distributions add to the backend."""

import subprocess
import sys


def test_rules_and_targets_are_found_by_entry_point(tmp_path):
    (tmp_path / "acme_backend.py").write_text(
        "import attrs\nfrom tileir.backend.target import TARGETS\n"
        'RULES = {"acme.nop": len}\n'
        'TARGET = attrs.evolve(TARGETS["sm_86"], name="sm_87")\n'
    )
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tileir.rules]\nacme = acme_backend:RULES\n[tileir.targets]\nsm_87 = acme_backend:TARGET\n"
    )
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from tileir.backend.codegen.lowering import third_party_rules\n"
        "from tileir.backend.target import target\n"
        "print(third_party_rules()['acme.nop'] is len, target('sm_87').name)"
    )
    command = [sys.executable, "-P", "-c", program]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stdout == "True sm_87\n", run.stderr
