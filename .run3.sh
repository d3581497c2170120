mkdir -p /tmp/logs /tmp/res/pub
pip install -q --no-index --no-deps --target /tmp/site .whl/*.whl 2>&1 | grep -v WARN | tail -2
pip install -q --no-build-isolation --no-deps --no-index --target /tmp/site --upgrade . 2>&1 | grep -v WARN | tail -2; rm -rf build
export PYTHONPATH=/tmp/site
nvidia-smi -L
t() { local s=$1 n=$2; shift 2; (time timeout $s "$@") > /tmp/logs/$n.log 2>&1; tail -c 700 /tmp/logs/$n.log; }
t 75 liger python3 benchmarks/public/measure.py /tmp/res/pub --seconds 70 --only 'liger/*' --limit 12 --configs 1
t 62 inductor python3 benchmarks/public/measure.py /tmp/res/pub --seconds 58 --only 'inductor/*' --limit 10 --configs 1
t 34 fla python3 benchmarks/public/measure.py /tmp/res/pub --seconds 31 --only 'fla/*' --limit 10 --configs 1
t 30 fam python3 benchmarks/families.py --out /tmp/res --seconds 28
t 40 launch python3 benchmarks/launch_table.py /tmp/res/launch
t 60 any python3 -P benchmarks/any_addressing.py /tmp/res/any --only matmul,attention --seconds 35
(t 150 gpu python3 -P -m pytest tests/gpu -n 6 -m "" -p no:benchmark -q) &
(cd /tmp; t 170 litmus python3 -m tileir.testing.litmus --on gpu --out /tmp/res/litmus.json --seconds 140) &
(t 60 record python3 -P -m tileir.testing.isolated record /tmp/programs.json --count 5000 --jobs 8; t 110 programs python3 -P -m tileir.testing.isolated run /tmp/programs.json --on gpu --out /tmp/res/gpu_programs.json --seconds 95 --jobs 6) &
wait
find /tmp/res -name '*.pt' -delete; rm -f /tmp/res/pub/*.log; tar czf $OUT/all.tgz -C /tmp logs res; ls -la $OUT
