"""TLS against real servers on this machine, with certificates of our own making: good, and wrong in every way."""
import socket
import ssl
import threading
import time

import pytest

from steadyhand.errors import ConfigError, RobotError
from steadyhand_firmware_bridge import tls
from steadyhand_firmware_bridge.tls import TlsConfig
from tests.support.authority import Authority

DAY_S = 86400.0


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


class Server:
    """Handshakes with whoever comes, then echoes one byte at a time until the client goes."""

    def __init__(self, context: ssl.SSLContext | None):
        self._context, self._listener = context, socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            plain.settimeout(2.0)
            try:
                if self._context is None:
                    plain.sendall(b"220 hello, this is plain text\r\n")
                    plain.recv(1000)
                else:
                    plain = self._context.wrap_socket(plain, server_side=True)
                    while data := plain.recv(1):
                        plain.sendall(data)
            except OSError:
                pass
            plain.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5.0)
        assert not self._thread.is_alive()


def unchecked_server(cert_file, key_file) -> ssl.SSLContext:
    """A server that does not care for its own certificate's dates: what a forgotten broker is like."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert_file, key_file)
    return context


def refusal(server: Server, ca_file: str, host: str = "127.0.0.1", **files) -> str:
    with pytest.raises(RobotError) as refused:
        tls.probe(host, server.port, TlsConfig(ca_file=ca_file, owner="broker", **files))
    assert isinstance(refused.value.__cause__, OSError)
    return str(refused.value)


def test_a_good_server_is_accepted_and_named(authority):
    with Server(tls.server_context(TlsConfig(cert_file=(c := authority.issue("broker"))[0], key_file=c[1]))) as server:
        for host in ("127.0.0.1", "localhost"):
            shown = tls.probe(host, server.port, TlsConfig(ca_file=authority.ca_file))
            assert shown.subject == "O=Steadyhand, CN=broker" and shown.issuer == "O=Steadyhand, CN=Test authority"
            assert shown.hosts == ("localhost", "127.0.0.1")


def test_an_expired_server_certificate_is_named_with_its_date(authority):
    with Server(unchecked_server(*authority.issue("old broker", days=(-20, -3)))) as server:
        said = refusal(server, authority.ca_file)
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 3 * DAY_S))
    assert f"broker 127.0.0.1:{server.port}" in said and "'O=Steadyhand, CN=old broker'" in said
    assert f"expired on {day}" in said and "this machine's clock says" in said


def test_a_server_certificate_that_is_not_valid_yet_is_named_with_its_date(authority):
    with Server(unchecked_server(*authority.issue("new broker", days=(5, 20)))) as server:
        said = refusal(server, authority.ca_file)
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 5 * DAY_S))
    assert "CN=new broker" in said and f"is not valid before {day}" in said


def test_an_expired_authority_behind_a_valid_certificate_is_not_called_an_expired_certificate(tmp_path, authority):
    old = Authority(tmp_path, "Old authority", days=(-100, -5))
    both = tmp_path / "both.pem"
    both.write_text(open(authority.ca_file).read() + open(old.ca_file).read())
    with Server(unchecked_server(*old.issue("broker"))) as server:
        said = refusal(server, str(both))
    assert "an authority of its chain has expired" in said


def test_a_strange_authority_is_named(tmp_path, authority):
    strange = Authority(tmp_path, "Somebody else")
    with Server(unchecked_server(*strange.issue("broker"))) as server:
        said = refusal(server, authority.ca_file)
    assert "issued by 'O=Steadyhand, CN=Somebody else'" in said and "authority is not trusted" in said


def test_without_ca_file_the_systems_authorities_do_not_know_ours(authority):
    with Server(unchecked_server(*authority.issue("broker"))) as server:
        assert "authority is not trusted" in refusal(server, "")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_certificate_for_another_host_is_named_with_its_hosts(authority, host):
    with Server(unchecked_server(*authority.issue("broker", hosts=("broker.example", "10.1.2.3")))) as server:
        said = refusal(server, authority.ca_file, host)
    assert f"is not for '{host}' but for: broker.example, 10.1.2.3" in said


def test_a_certificate_for_very_many_hosts_is_named_with_some_of_them(authority):
    hosts = tuple(f"{'x' * 60}.{n}.example" for n in range(300))
    with Server(unchecked_server(*authority.issue("broker", hosts=hosts))) as server:
        said = refusal(server, authority.ca_file)
    assert f"but for: {hosts[0]}, {hosts[1]}" in said and "and 295 more" in said and len(said) < 1000


def test_a_server_without_tls_is_named(authority):
    with Server(None) as server:
        assert "speaks no TLS on this port" in refusal(server, authority.ca_file)


def test_a_host_that_does_not_resolve_and_a_closed_port_are_named(authority):
    config = TlsConfig(ca_file=authority.ca_file, owner="broker")
    with pytest.raises(RobotError, match="host 'nowhere.invalid' does not resolve"):
        tls.probe("nowhere.invalid", 8883, config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(RobotError, match=f"broker 127.0.0.1:{port}: 127.0.0.1: Connection refused"):
        tls.probe("127.0.0.1", port, config)


def test_a_server_that_never_answers_is_left_in_time(authority):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(RobotError, match="timed out"):
            tls.probe("127.0.0.1", silent.getsockname()[1], TlsConfig(ca_file=authority.ca_file), timeout_s=0.1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_tls_is_refused(authority):
    context = unchecked_server(*authority.issue("broker"))
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with Server(context) as server:
        assert "speaks no TLS version of ours" in refusal(server, authority.ca_file)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_wants_our_certificate(tmp_path, authority, version):
    strange = Authority(tmp_path, "Somebody else")
    cert_file, key_file = authority.issue("broker")
    context = tls.server_context(TlsConfig(ca_file=authority.ca_file, cert_file=cert_file, key_file=key_file))
    context.minimum_version = context.maximum_version = version
    with Server(context) as server:
        ours, key = authority.issue("robot", hosts=())
        tls.probe("127.0.0.1", server.port, TlsConfig(authority.ca_file, ours, key))
        said = refusal(server, authority.ca_file)
        assert "certificate of ours" in said
        theirs, key = strange.issue("stranger", hosts=())
        said = refusal(server, authority.ca_file, cert_file=theirs, key_file=key)
        assert "does not know the authority of our certificate" in said


# -- our files -------------------------------------------------------------------------------------------------------


def test_files_with_wrong_dates_are_refused_by_name(tmp_path, authority):
    old = Authority(tmp_path, "Old authority", days=(-100, -5))
    with pytest.raises(ConfigError, match=r"broker.ca_file .*Old_authority.ca.pem: .*CN=Old authority' expired on 20"):
        tls.client_context(TlsConfig(ca_file=old.ca_file, owner="broker"))
    for name, days, said in (("late", (-9, -1), "expired on"), ("early", (1, 9), "is not valid before")):
        cert_file, key_file = authority.issue(name, days=days)
        with pytest.raises(ConfigError, match=f"tls.cert_file .*{name}.pem: .*CN={name}' {said} 20.*clock says"):
            tls.client_context(TlsConfig(authority.ca_file, cert_file, key_file))


def test_what_expires_soon_and_one_expired_authority_of_two_are_warned_of(tmp_path, authority):
    old = Authority(tmp_path, "Old authority", days=(-100, -5))
    both = tmp_path / "both.pem"
    both.write_text(open(old.ca_file).read() + open(authority.ca_file).read())
    cert_file, key_file = authority.issue("robot", days=(-1, 12))
    warnings = tls.check(TlsConfig(str(both), cert_file, key_file))
    assert len(warnings) == 2
    assert "CN=Old authority' expired on" in warnings[0] and "CN=robot' expires on" in warnings[1]
    tls.client_context(TlsConfig(str(both), cert_file, key_file))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"", "holds no certificate in PEM form"),
        (b"\x00" * 100, "holds no certificate in PEM form"),
        (b"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----", "no base64"),
        (b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "malformed certificate"),
        (b"x" * (tls.MAX_FILE + 1), "more than"),
    ],
)
def test_files_that_are_no_certificates(tmp_path, content, said):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"tls.ca_file .*ca.pem.*{said}"):
        tls.client_context(TlsConfig(ca_file=str(path)))


def test_keys_that_do_not_fit(tmp_path, authority):
    cert_file, key_file = authority.issue("robot")
    _, other = authority.issue("other")
    _, locked = authority.issue("locked", password=b"secret")
    with pytest.raises(ConfigError, match="other.key.pem does not belong to .*robot.pem"):
        tls.client_context(TlsConfig(authority.ca_file, cert_file, other))
    with pytest.raises(ConfigError, match="locked.key.pem is encrypted"):
        tls.client_context(TlsConfig(authority.ca_file, cert_file, locked))
    with pytest.raises(ConfigError, match="key_file .*robot.pem: holds no private key"):
        tls.client_context(TlsConfig(authority.ca_file, cert_file, cert_file))
    with pytest.raises(ConfigError, match="cert_file .*robot.pem: holds no private key"):
        tls.client_context(TlsConfig(authority.ca_file, cert_file))
    (tmp_path / "robot.key.pem").chmod(0o644)
    with pytest.raises(ConfigError, match="anybody on this machine may read or change it"):
        tls.client_context(TlsConfig(authority.ca_file, cert_file, key_file))


def test_configs_that_make_no_sense(authority):
    with pytest.raises(ConfigError, match="key_file = 'k.pem' without cert_file"):
        TlsConfig(key_file="k.pem")
    with pytest.raises(ConfigError, match="warn_days = nan"):
        TlsConfig(warn_days=float("nan"))
    with pytest.raises(ConfigError, match="a server needs a certificate"):
        tls.server_context(TlsConfig(ca_file=authority.ca_file))
