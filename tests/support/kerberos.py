"""A real Kerberos on this machine: MIT's KDC as a process, on loopback, and settings of Hadoop."""

import os
import shutil

from tests.support.sandbox import Sandbox, finished, free_port

from sparkwright.errors import ConfigurationError

_REALM = "SPARKWRIGHT.TEST"
_SERVER = "nn/localhost"
# Debian keeps the KDC where only root's path leads.
_PATH = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin"
_CLIENTS = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""
_SERVERS = """\
[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principals
  key_stash_file = {folder}/stash
  max_life = 1h
  max_renewable_life = 2h
 }}
[logging]
 kdc = STDERR
"""


class Kerberos(Sandbox):
    """A KDC with the principals of HDFS and of some users, whose keytabs lie in `folder`.

    Example:
        with Kerberos("alice") as kerberos, HdfsCluster(settings=kerberos.hadoop_settings) as hdfs:
            kerberos.log_in("alice", tmp_path / "tickets")
    """

    def __init__(self, *users, short_lived=None, timeout_s=30.0):
        """Describe it; `start` or `with` starts it.

        `users` are principals beside the servers'; `short_lived` is how many seconds tickets of
        some of them last, instead of an hour.
        """
        super().__init__("kerberos")
        self._users, self._timeout_s = users, timeout_s
        self._lifetimes = dict(short_lived or {})

    @property
    def environment(self):
        """What all processes need to find the KDC, Java among them."""
        file = self.folder / "krb5.conf"
        options = f"-Djava.security.krb5.conf={file}"
        return {"KRB5_CONFIG": str(file), "JDK_JAVA_OPTIONS": options}

    @property
    def hadoop_settings(self):
        """Of HDFS and YARN, for all processes."""
        principal, keytab = f"{_SERVER}@{_REALM}", str(self.keytab(_SERVER))
        settings = {
            "hadoop.security.authentication": "kerberos",
            "hadoop.security.authorization": "true",
            "dfs.block.access.token.enable": "true",
            "dfs.data.transfer.protection": "authentication",
            # Data nodes want ports of root or certificates otherwise.
            "ignore.secure.ports.for.testing": "true",
            "dfs.web.authentication.kerberos.principal": principal,
            "dfs.web.authentication.kerberos.keytab": keytab,
        }
        for server in ("namenode", "datanode"):
            settings[f"dfs.{server}.kerberos.principal"] = principal
            settings[f"dfs.{server}.keytab.file"] = keytab
        for server in ("resourcemanager", "nodemanager"):
            settings[f"yarn.{server}.principal"] = principal
            settings[f"yarn.{server}.keytab"] = keytab
        return settings

    def keytab(self, principal):
        """The file with the key of a principal."""
        return self.folder / f"{principal.partition('/')[0]}.keytab"

    def log_in(self, user, cache):
        """Put a ticket into a cache, by the user's keytab."""
        self._run(["kinit", "-c", f"FILE:{cache}", "-k", "-t", str(self.keytab(user)), user])

    def change_key(self, user):
        """Give a user another key than that of the keytab."""
        self._ask(f"cpw -randkey {user}")

    def _prepare(self):
        if shutil.which("krb5kdc", path=_PATH) is None or shutil.which("kinit") is None:
            raise ConfigurationError(
                "Kerberos for tests is MIT's. Received: no krb5kdc or kinit. Install it (on Debian "
                "or Ubuntu: apt-get install krb5-kdc krb5-admin-server krb5-user)."
            )

    def _start(self, keeper):
        port = free_port()
        texts = {"realm": _REALM, "port": port, "folder": self.folder}
        (self.folder / "krb5.conf").write_text(_CLIENTS.format(**texts))
        (self.folder / "kdc.conf").write_text(_SERVERS.format(**texts))
        self._run(["kdb5_util", "create", "-s", "-P", "secret"])
        for name in (_SERVER, *self._users):
            lasts_s = self._lifetimes.get(name, 3600)
            self._ask(f'addprinc -randkey -maxlife "{lasts_s} seconds" {name}')
            self._ask(f"ktadd -norandkey -k {self.keytab(name)} {name}")
        kdc = self._add_server("KDC", keeper, logs=self.folder)
        kdc.start([_program("krb5kdc"), "-n", "-P", str(self.folder / "pid")], self._environment())
        kdc.wait_until(
            lambda: "commencing operation" in kdc.written(),
            what="listening",
            timeout_s=self._timeout_s,
        )

    def _end(self, keeper):
        pass

    def _environment(self):
        return os.environ | self.environment | {"KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}

    def _ask(self, query):
        self._run(["kadmin.local", "-q", query])

    def _run(self, command):
        program = [_program(command[0]), *command[1:]]
        code, words = finished(program, timeout_s=self._timeout_s, environment=self._environment())
        if code:
            raise ConfigurationError(f"{' '.join(command)} failed. Received: {words}")


def _program(name):
    return shutil.which(name, path=_PATH) or name
