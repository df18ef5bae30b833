import sys, warnings, glob, os
import numpy as np
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL","3")
from sparkwright.dl4j import import_dl4j
import keras
def last(a):
O=os.environ.get("O","/tmp/dl4j/out")
    return np.moveaxis(a,1,-1) if a.ndim>2 else a
names=sys.argv[1:] or sorted(os.path.basename(p)[:-4] for p in glob.glob(O+"/*.zip"))
for n in names:
    z=np.load(O+f"/{n}.npz")
    shapes={"subsampling":{"input":(9,8,2)},"shapes":{"input":(4,5,2)}}.get(n)
    try:
        with warnings.catch_warnings(record=True) as w:
            warnings.simplefilter("always")
            model,norm=import_dl4j(O+f"/{n}.zip",input_shapes=shapes)
        xs=[last(z[f"in{i}"]) for i in range(len(model.inputs))]
        ys=[last(z[f"labels{i}"]) for i in range(len(model.outputs))]
        def outs():
            o=model.predict(xs if len(xs)>1 else xs[0],verbose=0); return o if isinstance(o,list) else [o]
        d=max(np.abs(a-last(z[f"out{i}"])).max() for i,a in enumerate(outs()))
        x=xs if len(xs)>1 else xs[0]; y=ys if len(ys)>1 else ys[0]
        ev=model.evaluate(x,y,verbose=0,batch_size=100)
        ev=ev[0] if isinstance(ev,list) else ev
        for _ in range(2): model.train_on_batch(x,y)
        d2=max(np.abs(a-last(z[f"after{i}"])).max() for i,a in enumerate(outs()))
        print(f"{n:28} out {d:.1e}  score {abs(ev-z['score'].item()):.1e} ({ev:.4f} {z['score'].item():.4f}) after {d2:.1e}", [str(m.message).split('.zip: ')[-1] for m in w if 'taken over' in str(m.message)] , norm and type(norm).__name__)
    except Exception as e:
        print(f"{n:28} FAILED {type(e).__name__} {e}"[:400])
        if len(names)==1: raise
