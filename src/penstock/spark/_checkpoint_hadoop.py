"""The files of a checkpoint that only Hadoop can reach (hdfs://, s3a://, abfss://, …), through a session's JVM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from penstock.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HadoopFiles"]

_WHOLE_AT_CLOSE = frozenset({"s3", "s3a", "s3n", "gs", "oss", "cosn", "obs"})
"""Object stores: a file appears as a whole when it is closed, and a rename is a copy, which is not atomic."""


class HadoopFiles:
    """A folder on any file system that the session's configuration knows."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            raise UsageError(
                "this session has no JVM of its own (Spark Connect), and the checkpoint's files cannot be reached",
                hint="Run `penstock spark convert-checkpoint` where Spark itself is installed",
            )
        self._jvm: Any = jvm
        # Includes settings made since the session started, as the query will have them.
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._root = jvm.org.apache.hadoop.fs.Path(root)
        self._system = self._root.getFileSystem(self._conf)

    def modified(self, folder: str) -> Mapping[str, float]:
        return {each.getPath().getName(): each.getModificationTime() / 1_000 for each in self._list(folder, files=True)}

    def folders(self, folder: str) -> list[str]:
        return sorted(each.getPath().getName() for each in self._list(folder, files=False))

    def read(self, path: str) -> bytes | None:
        if not self._system.exists(self._path(path)):
            return None
        opened = self._system.open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(opened))
        finally:
            opened.close()

    def replace(self, path: str, content: bytes) -> None:
        target = self._path(path)
        if self._system.getUri().getScheme() in _WHOLE_AT_CLOSE:
            self._write(target, content)
            return
        written = self._jvm.org.apache.hadoop.fs.Path(target.getParent(), f".{target.getName()}.converted")
        self._write(written, content)
        try:
            self._rename_over(written, target)
        except Py4JJavaError:  # not every file system can; the copy in ``originals`` then repairs a file after a kill
            self._system.delete(target, False)
            self._system.rename(written, target)

    def delete(self, path: str) -> None:
        self._system.delete(self._path(path), False)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, path)

    def _list(self, folder: str, *, files: bool) -> list[Any]:
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        return [each for each in self._system.listStatus(path) if each.isFile() == files]

    def _write(self, path: Any, content: bytes) -> None:
        stream = self._system.create(path, True)
        stream.write(content)
        stream.close()

    def _rename_over(self, written: Any, target: Any) -> None:
        rename = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        options = self._jvm.java.lang.reflect.Array.newInstance(rename.OVERWRITE.getClass(), 1)
        options[0] = rename.OVERWRITE
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(target.toUri(), self._conf)
        context.rename(written, target, options)
