"""HTTP/2 as the program speaks it: agreed on by TLS, streamed, all calls over one connection.

Needs the package h2 and the program openssl; BUILD is the build tree (default: build-dev).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from http2_server import MODEL, Http2Server

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KERNEL_EVOLVE_BUILD", ROOT / "build-dev"))
BURST = 8
DEADLINE = 120  # seconds; for a machine under load


def profile(port: int, version: str) -> str:
    """Two models behind one endpoint."""
    model = (f"{{provider: openai, model: m, base_url: 'https://127.0.0.1:{port}/v1', "
             f"api_key: none, proxy: none, tls: {{ca_bundle: cert.pem}}, "
             f"http_version: {version}, retry: {{attempts: 1}}, limits: {{timeout: 60s}}}}")
    return f"kernel_evolve_profile: 1\nmodels:\n  first: {model}\n  second: {model}\n"


class Http2(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.certificate = str(self.folder / "cert.pem")
        self.key = str(self.folder / "key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=test", "-addext",
             "subjectAltName=IP:127.0.0.1", "-keyout", self.key, "-out", self.certificate],
            check=True, capture_output=True)

    def test_doctor_streams_from_a_server_that_has_nothing_else(self) -> None:
        for version in ("auto", "2"):
            with self.subTest(http_version=version):
                with Http2Server(self.certificate, self.key) as server:
                    file = self.folder / "profile.yaml"
                    file.write_text(profile(server.port, version), encoding="utf-8")
                    done = subprocess.run(
                        [str(BUILD / "bin" / "kernel-evolve"), "doctor", "--profile", str(file)],
                        capture_output=True, text=True, check=False, timeout=DEADLINE)
                said = done.stdout + done.stderr
                self.assertEqual(done.stdout.count("tools work"), 2, said)
                self.assertEqual(done.stdout.count("streaming works"), 2, said)
                self.assertEqual(done.stdout.count("20 tokens in, 9 out"), 2, said)
                self.assertEqual(done.stdout.count(MODEL), 2, said)
                self.assertNotIn("quirk", done.stdout)
                self.assertEqual([seen.protocol for seen in server.connections], ["h2"])
                self.assertEqual(len(server.connections[0].requests), 2)

    def test_a_burst_shares_one_connection(self) -> None:
        with Http2Server(self.certificate, self.key, together=BURST) as server:
            done = subprocess.run(
                [str(BUILD / "bin" / "http_burst"), f"https://127.0.0.1:{server.port}/v1",
                 self.certificate, str(BURST)],
                input=json.dumps({"tools": [{"function": {"name": "report_sum"}}]}),
                capture_output=True, text=True, check=False, timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(answers), BURST)
        for answer in answers:
            self.assertEqual((answer["error"], answer["status"]), ("", 200))
            self.assertTrue(answer["body"].endswith("data: [DONE]\n\n"), answer)
            self.assertGreater(answer["pieces"], 3)
        self.assertEqual([seen.protocol for seen in server.connections], ["h2"])
        self.assertEqual(server.connections[0].most_open, BURST)


if __name__ == "__main__":
    unittest.main()
