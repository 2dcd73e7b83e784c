# Sourced by the scripts that submit: sets SPARK_HOME, the packed environment ($archive) and the folder that it was made from
# ($environment), made anew if this checkout has changed. ARCHIVE names another archive, with its folder beside it.
. "$here/_python.sh"
archive=${ARCHIVE:-$(bash "$here/pack_env.sh")}
environment=${archive%.tar.gz}
SPARK_HOME=$("$PYTHON" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
export SPARK_HOME
unset PYTHONPATH # this checkout: what runs is the wheel
