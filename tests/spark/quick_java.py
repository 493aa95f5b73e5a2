"""How Java is run where a test starts it: for seconds, so that starting and warming up is all that counts.

The optimising compiler and parallel garbage collection take a third of the processor time of such a run, and
to verify the classes of Spark's jars takes a sixth of what is left.
"""

from __future__ import annotations

OPTIONS = "JDK_JAVA_OPTIONS"
"""The environment variable that every Java reads: of a session, and of the launcher before it."""
QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
