// Writes the networks of tests/dl4j/networks; to renew them:
//   mvn -f tests/dl4j/pom.xml dependency:copy-dependencies -DoutputDirectory=/tmp/dl4j-jars
//   java -cp '/tmp/dl4j-jars/*' tests/dl4j/Networks.java tests/dl4j/networks 7
import java.io.File;
import java.io.FileOutputStream;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.deeplearning4j.nn.api.Model;
import org.deeplearning4j.nn.api.OptimizationAlgorithm;
import org.deeplearning4j.nn.conf.*;
import org.deeplearning4j.nn.conf.distribution.NormalDistribution;
import org.deeplearning4j.nn.conf.dropout.*;
import org.deeplearning4j.nn.conf.graph.*;
import org.deeplearning4j.nn.conf.graph.rnn.LastTimeStepVertex;
import org.deeplearning4j.nn.conf.inputs.InputType;
import org.deeplearning4j.nn.conf.layers.*;
import org.deeplearning4j.nn.conf.layers.misc.FrozenLayer;
import org.deeplearning4j.nn.conf.layers.recurrent.*;
import org.deeplearning4j.nn.graph.ComputationGraph;
import org.deeplearning4j.nn.multilayer.MultiLayerNetwork;
import org.deeplearning4j.util.ModelSerializer;
import org.nd4j.linalg.activations.Activation;
import org.nd4j.linalg.activations.IActivation;
import org.nd4j.linalg.activations.impl.*;
import org.nd4j.linalg.api.buffer.DataType;
import org.nd4j.linalg.api.ndarray.INDArray;
import org.nd4j.linalg.dataset.DataSet;
import org.nd4j.linalg.dataset.MultiDataSet;
import org.nd4j.linalg.dataset.api.preprocessor.*;
import org.nd4j.linalg.factory.Nd4j;
import org.nd4j.linalg.learning.config.*;
import org.nd4j.linalg.lossfunctions.LossFunctions.LossFunction;
import org.nd4j.linalg.schedule.*;

/**
 * Makes the networks of tests/dl4j/networks with Deeplearning4j: of each a ZIP of ModelSerializer, and an .npz with
 * random inputs, labels, the outputs, the score, and the outputs after two more minibatches of training.
 */
public class Networks {
    private static File folder;
    private static long seed;

    public static void main(String[] arguments) throws Exception {
        folder = new File(arguments[0]);
        folder.mkdirs();
        seed = Long.parseLong(arguments[1]);
        Nd4j.setDefaultDataTypes(DataType.FLOAT, DataType.FLOAT);
        Nd4j.getRandom().setSeed(seed);
        layers();
        updaters();
        networks();
    }

    // --- one network for each kind of layer -----------------------------------------------------

    private static void layers() throws Exception {
        IActivation[] activations = {
            new ActivationIdentity(), new ActivationReLU(), new ActivationTanH(), new ActivationSigmoid(),
            new ActivationSoftPlus(), new ActivationSoftSign(), new ActivationELU(), new ActivationSELU(),
            new ActivationSwish(), new ActivationLReLU(0.2), new ActivationReLU6(), new ActivationHardTanH(),
            new ActivationMish(), new ActivationGELU(true), new ActivationGELU(false), new ActivationThresholdedReLU(0.1),
            new ActivationELU(0.5), new ActivationHardSigmoid(), new ActivationRectifiedTanh(), new ActivationSoftmax()};
        ComputationGraphConfiguration.GraphBuilder many = start(new Sgd(0.05)).graphBuilder().addInputs("x");
        String[] names = new String[activations.length];
        for (int i = 0; i < names.length; i++) {
            names[i] = activations[i].getClass().getSimpleName() + i;
            many.addLayer(names[i], new DenseLayer.Builder().nIn(4).nOut(2).activation(activations[i]).build(), "x");
        }
        many.addVertex("all", new MergeVertex(), names).addLayer("out", output(2 * names.length, 3), "all").setOutputs("out");
        graph("activations", many, null, array(floats(8, 4).muli(3)), array(classes(8, 3)));
        mln("dense", start(new Sgd(0.05)).list()
            .layer(new DenseLayer.Builder().nIn(4).nOut(4).activation(Activation.RELU).build())
            .layer(new DenseLayer.Builder().nIn(4).nOut(5).activation(Activation.TANH).hasBias(false).build())
            .layer(output(5, 3)), null, floats(8, 4), classes(8, 3));
        mln("convolution", start(new Sgd(0.05)).list()
            .layer(new ConvolutionLayer.Builder(3, 2).nOut(3).activation(Activation.TANH).build())
            .layer(new ConvolutionLayer.Builder(3, 3).nOut(4).stride(2, 1).padding(1, 2).hasBias(false).activation(Activation.RELU).build())
            .layer(new ConvolutionLayer.Builder(3, 3).nOut(3).stride(2, 2).convolutionMode(ConvolutionMode.Same).activation(Activation.IDENTITY).build())
            .layer(new ConvolutionLayer.Builder(2, 2).nOut(2).dilation(2, 2).convolutionMode(ConvolutionMode.Same).activation(Activation.SIGMOID).build())
            .layer(output(0, 3)), InputType.convolutional(14, 12, 2), floats(3, 2, 14, 12), classes(3, 3));
        mln("subsampling", start(new Sgd(0.05)).list()
            .layer(new ZeroPaddingLayer.Builder(1, 0, 2, 1).build())
            .layer(new SubsamplingLayer.Builder(SubsamplingLayer.PoolingType.MAX, new int[] {2, 3}, new int[] {1, 1}).padding(1, 1).build())
            .layer(new SubsamplingLayer.Builder(SubsamplingLayer.PoolingType.AVG, new int[] {3, 3}, new int[] {2, 2}).convolutionMode(ConvolutionMode.Same).build())
            .layer(new SubsamplingLayer.Builder(SubsamplingLayer.PoolingType.MAX, new int[] {2, 2}, new int[] {1, 1}).convolutionMode(ConvolutionMode.Same).build())
            .layer(new SubsamplingLayer.Builder(SubsamplingLayer.PoolingType.AVG, new int[] {2, 2}, new int[] {1, 1}).build())
            .layer(output(0, 3)), InputType.convolutional(9, 8, 2), floats(6, 2, 9, 8), classes(6, 3));
        mln("unmapped", start(new Sgd(0.05)).list()
            .layer(new SeparableConvolution2D.Builder(2, 2).nOut(3).build())
            .layer(output(0, 3)), InputType.convolutional(4, 5, 2), floats(6, 2, 4, 5), classes(6, 3));
        mln("channels-last", start(new Sgd(0.05)).list()
            .layer(new ConvolutionLayer.Builder(2, 3).nOut(3).dataFormat(CNN2DFormat.NHWC).activation(Activation.TANH).build())
            .layer(new SubsamplingLayer.Builder(SubsamplingLayer.PoolingType.MAX, new int[] {2, 2}, new int[] {1, 1}).dataFormat(CNN2DFormat.NHWC).build())
            .layer(output(0, 3)), InputType.convolutional(5, 6, 2, CNN2DFormat.NHWC), floats(6, 5, 6, 2), classes(6, 3));
        mln("frozen", start(new Adam(0.01)).list()
            .layer(new FrozenLayer(new DenseLayer.Builder().nIn(4).nOut(5).activation(Activation.TANH).dropOut(0.5).build()))
            .layer(new DenseLayer.Builder().nIn(5).nOut(4).activation(Activation.TANH).build())
            .layer(output(4, 3)), null, floats(8, 4), classes(8, 3));
        mln("two-updaters", start(new Adam(0.01)).list()
            .layer(new DenseLayer.Builder().nIn(4).nOut(5).activation(Activation.TANH).updater(new Nesterovs(0.1)).build())
            .layer(new DenseLayer.Builder().nIn(5).nOut(4).activation(Activation.TANH).biasUpdater(new Sgd(0.1)).build())
            .layer(output(4, 3)), null, floats(8, 4), classes(8, 3));
        mln("batch-normalization", start(new Sgd(0.05)).list()
            .layer(new ConvolutionLayer.Builder(2, 2).nOut(3).activation(Activation.TANH).build())
            .layer(new BatchNormalization.Builder().decay(0.8).build())
            .layer(new DenseLayer.Builder().nOut(5).activation(Activation.TANH).build())
            .layer(new BatchNormalization.Builder().useLogStd(false).eps(1e-3).build())
            .layer(new BatchNormalization.Builder().lockGammaBeta(true).gamma(0.5).beta(0.3).build())
            .layer(output(0, 3)), InputType.convolutional(4, 4, 2), floats(6, 2, 4, 4), classes(6, 3));
        mln("lstm", start(new Sgd(0.05)).list()
            .layer(new LSTM.Builder().nIn(3).nOut(4).activation(Activation.TANH).gateActivationFunction(Activation.SIGMOID).build())
            .layer(new DenseLayer.Builder().nIn(4).nOut(4).activation(Activation.RELU).build())
            .layer(new SimpleRnn.Builder().nIn(4).nOut(3).activation(Activation.TANH).build())
            .layer(rnnOutput(3, 2)), InputType.recurrent(3), floats(5, 3, 6), steps(5, 2, 6));
        mln("graves-lstm", start(new Sgd(0.05)).list()
            .layer(new GravesLSTM.Builder().nIn(3).nOut(4).activation(Activation.SOFTSIGN).build())
            .layer(new GravesBidirectionalLSTM.Builder().nIn(4).nOut(3).activation(Activation.TANH).build())
            .layer(rnnOutput(3, 2)), null, floats(5, 3, 6), steps(5, 2, 6));
        for (Bidirectional.Mode mode : Bidirectional.Mode.values()) {
            int width = mode == Bidirectional.Mode.CONCAT ? 8 : 4;
            mln("bidirectional-" + mode.toString().toLowerCase(), start(new Sgd(0.05)).list()
                .layer(new Bidirectional(mode, new LSTM.Builder().nIn(3).nOut(4).activation(Activation.TANH).build()))
                .layer(new LastTimeStep(new Bidirectional(mode, new SimpleRnn.Builder().nIn(width).nOut(4).build())))
                .layer(output(width, 3)), null, floats(5, 3, 6), classes(5, 3));
        }
        mln("last-time-step", start(new Sgd(0.05)).list()
            .layer(new LastTimeStep(new LSTM.Builder().nIn(3).nOut(4).activation(Activation.TANH).build()))
            .layer(output(4, 3)), null, floats(5, 3, 6), classes(5, 3));
        mln("embedding", start(new Sgd(0.05)).list()
            .layer(new EmbeddingLayer.Builder().nIn(10).nOut(4).activation(Activation.TANH).build())
            .layer(output(4, 3)), null, integers(6, 10, 1), classes(6, 3));
        mln("embedding-sequence", start(new Sgd(0.05)).list()
            .layer(new EmbeddingSequenceLayer.Builder().nIn(10).nOut(4).inputLength(5).build())
            .layer(new GlobalPoolingLayer.Builder(PoolingType.MAX).build())
            .layer(output(4, 3)), InputType.recurrent(10), integers(6, 10, 5), classes(6, 3));
        for (PoolingType type : PoolingType.values()) {
            GlobalPoolingLayer.Builder pooling = new GlobalPoolingLayer.Builder(type).pnorm(3);
            mln("pooling-" + type.toString().toLowerCase() + "-2d", start(new Sgd(0.05)).list()
                .layer(new ConvolutionLayer.Builder(2, 2).nOut(3).activation(Activation.TANH).build())
                .layer(pooling.build())
                .layer(output(0, 3)), InputType.convolutional(4, 4, 2), floats(6, 2, 4, 4), classes(6, 3));
            mln("pooling-" + type.toString().toLowerCase() + "-1d", start(new Sgd(0.05)).list()
                .layer(new Convolution1DLayer.Builder(2).nIn(3).nOut(4).activation(Activation.TANH).build())
                .layer(new GlobalPoolingLayer.Builder(type).pnorm(3).build())
                .layer(output(4, 3)), InputType.recurrent(3), floats(5, 3, 6), classes(5, 3));
        }
        mln("dropout", start(new Sgd(0.05)).dropOut(0.8).list()
            .layer(new DenseLayer.Builder().nIn(4).nOut(5).activation(Activation.TANH).build())
            .layer(new DropoutLayer.Builder(0.6).build())
            .layer(new DropoutLayer.Builder(new GaussianDropout(0.3)).build())
            .layer(new DropoutLayer.Builder(new GaussianNoise(0.1)).build())
            .layer(new DropoutLayer.Builder(new AlphaDropout(0.9)).build())
            .layer(new ActivationLayer.Builder().activation(Activation.RELU).build())
            .layer(output(5, 3)), null, floats(8, 4), classes(8, 3));
        mln("losses", start(new Sgd(0.05)).list()
            .layer(new DenseLayer.Builder().nIn(4).nOut(3).activation(Activation.SOFTMAX).build())
            .layer(new LossLayer.Builder(LossFunction.MCXENT).activation(Activation.IDENTITY).build()), null, floats(8, 4), classes(8, 3));
        LossFunction[] losses = {LossFunction.MSE, LossFunction.L1, LossFunction.L2, LossFunction.XENT, LossFunction.MCXENT,
            LossFunction.SQUARED_HINGE, LossFunction.KL_DIVERGENCE, LossFunction.MEAN_ABSOLUTE_ERROR, LossFunction.HINGE,
            LossFunction.NEGATIVELOGLIKELIHOOD, LossFunction.MEAN_ABSOLUTE_PERCENTAGE_ERROR,
            LossFunction.MEAN_SQUARED_LOGARITHMIC_ERROR, LossFunction.POISSON, LossFunction.COSINE_PROXIMITY};
        for (LossFunction each : losses) {
            Activation last = each == LossFunction.XENT ? Activation.SIGMOID : Activation.SOFTMAX;
            INDArray labels = each == LossFunction.MEAN_ABSOLUTE_PERCENTAGE_ERROR ? floats(8, 3).addi(3) : classes(8, 3);
            if (each.toString().contains("HINGE")) labels = labels.muli(2).subi(1);
            mln("loss-" + each.toString().toLowerCase(), start(new Sgd(0.01)).list()
                .layer(new DenseLayer.Builder().nIn(4).nOut(4).activation(Activation.TANH).build())
                .layer(new OutputLayer.Builder(each).nIn(4).nOut(3).activation(last).build()), null, floats(8, 4), labels);
        }
        ComputationGraphConfiguration.GraphBuilder vertices = start(new Sgd(0.05)).graphBuilder().addInputs("x")
            .addLayer("a", new DenseLayer.Builder().nIn(4).nOut(4).activation(Activation.TANH).build(), "x")
            .addLayer("b", new DenseLayer.Builder().nIn(4).nOut(4).activation(Activation.TANH).build(), "x");
        for (ElementWiseVertex.Op op : ElementWiseVertex.Op.values())
            vertices.addVertex(op.toString(), new ElementWiseVertex(op), "a", "b");
        vertices.addVertex("merged", new MergeVertex(), "Add", "Subtract", "Product", "Average", "Max")
            .addVertex("part", new SubsetVertex(2, 14), "merged")
            .addVertex("scaled", new ScaleVertex(1.5), "part")
            .addVertex("shifted", new ShiftVertex(0.2), "scaled")
            .addVertex("unit", new L2NormalizeVertex(), "shifted")
            .addLayer("out", output(13, 3), "unit").setOutputs("out");
        graph("vertices", vertices, null, array(floats(8, 4)), array(classes(8, 3)));
        graph("image-vertices", start(new Sgd(0.05)).graphBuilder().addInputs("x")
            .addLayer("a", new ConvolutionLayer.Builder(3, 3).nOut(3).convolutionMode(ConvolutionMode.Same).activation(Activation.TANH).build(), "x")
            .addLayer("b", new ConvolutionLayer.Builder(1, 1).nOut(2).activation(Activation.TANH).build(), "x")
            .addVertex("merged", new MergeVertex(), "a", "b")
            .addLayer("out", output(0, 3), "merged").setOutputs("out")
            .setInputTypes(InputType.convolutional(4, 5, 2)), null, array(floats(6, 2, 4, 5)), array(classes(6, 3)));
        graph("sequence-vertices", start(new Sgd(0.05)).graphBuilder().addInputs("x")
            .addLayer("a", new LSTM.Builder().nIn(3).nOut(4).activation(Activation.TANH).build(), "x")
            .addLayer("b", new LSTM.Builder().nIn(3).nOut(2).activation(Activation.TANH).build(), "x")
            .addVertex("merged", new MergeVertex(), "a", "b")
            .addVertex("last", new LastTimeStepVertex("x"), "merged")
            .addLayer("out", output(6, 3), "last").setOutputs("out"), null, array(floats(5, 3, 6)), array(classes(5, 3)));
    }

    // --- one network for each updater -----------------------------------------------------------

    private static void updaters() throws Exception {
        Map<String, IUpdater> updaters = new LinkedHashMap<>();
        updaters.put("sgd", new Sgd(new ExponentialSchedule(ScheduleType.ITERATION, 0.1, 0.9)));
        updaters.put("nesterovs", new Nesterovs(new StepSchedule(ScheduleType.ITERATION, 0.1, 0.5, 2), 0.8));
        updaters.put("adam", new Adam(0.01));
        updaters.put("amsgrad", new AMSGrad(0.01));
        updaters.put("adamax", new AdaMax(0.01));
        updaters.put("nadam", new Nadam(0.01));
        updaters.put("adagrad", new AdaGrad(0.05));
        updaters.put("rmsprop", new RmsProp(0.01));
        updaters.put("adadelta", new AdaDelta());
        for (Map.Entry<String, IUpdater> each : updaters.entrySet())
            mln("updater-" + each.getKey(), start(each.getValue()).list()
                .layer(new ConvolutionLayer.Builder(2, 2).nOut(3).activation(Activation.TANH).build())
                .layer(new BatchNormalization.Builder().build())
                .layer(new DenseLayer.Builder().nOut(4).activation(Activation.TANH).build())
                .layer(output(0, 3)), InputType.convolutional(4, 4, 2), floats(6, 2, 4, 4), classes(6, 3));
    }

    // --- five small networks --------------------------------------------------------------------

    private static void networks() throws Exception {
        INDArray features = floats(20, 4).muli(3).addi(5);
        NormalizerStandardize standardize = new NormalizerStandardize();
        DataSet data = new DataSet(features, classes(20, 3));
        standardize.fit(data);
        mln("classifier", start(new Adam(0.02)).l2(0.01).l1(0.003).list()
            .layer(new DenseLayer.Builder().nIn(4).nOut(8).activation(Activation.RELU).build())
            .layer(new DenseLayer.Builder().nIn(8).nOut(6).activation(Activation.TANH).build())
            .layer(output(6, 3)), null, floats(20, 4), data.getLabels(), standardize, features);
        NormalizerMinMaxScaler range = new NormalizerMinMaxScaler(-1, 2);
        range.fitLabel(true);
        DataSet numbers = new DataSet(floats(20, 4).muli(3).addi(5), floats(20, 2).muli(10));
        range.fit(numbers);
        mln("regression", start(new RmsProp(0.01)).list()
            .layer(new DenseLayer.Builder().nIn(4).nOut(8).activation(Activation.SIGMOID).build())
            .layer(new OutputLayer.Builder(LossFunction.MSE).nIn(8).nOut(2).activation(Activation.IDENTITY).build()),
            null, floats(20, 4), floats(20, 2), range, numbers.getFeatures());
        mln("lenet", start(new Nesterovs(0.05, 0.9)).list()
            .layer(new ConvolutionLayer.Builder(3, 3).nOut(4).activation(Activation.RELU).build())
            .layer(new SubsamplingLayer.Builder(SubsamplingLayer.PoolingType.MAX, new int[] {2, 2}, new int[] {2, 2}).build())
            .layer(new ConvolutionLayer.Builder(3, 3).nOut(5).activation(Activation.RELU).build())
            .layer(new SubsamplingLayer.Builder(SubsamplingLayer.PoolingType.MAX, new int[] {2, 2}, new int[] {2, 2}).build())
            .layer(new DenseLayer.Builder().nOut(8).activation(Activation.RELU).build())
            .layer(output(0, 3)), InputType.convolutionalFlat(14, 12, 1), floats(6, 14 * 12), classes(6, 3),
            new ImagePreProcessingScaler(-1, 1, 8), floats(2, 3));
        mln("text", start(new Adam(0.01)).list()
            .layer(new EmbeddingSequenceLayer.Builder().nIn(12).nOut(5).build())
            .layer(new Bidirectional(Bidirectional.Mode.CONCAT, new LSTM.Builder().nOut(4).activation(Activation.TANH).build()))
            .layer(new GlobalPoolingLayer.Builder(PoolingType.AVG).build())
            .layer(new OutputLayer.Builder(LossFunction.XENT).nOut(1).activation(Activation.SIGMOID).build()),
            InputType.recurrent(12), integers(6, 12, 7), classes(6, 2).getColumn(0).reshape(6, 1));
        MultiNormalizerStandardize both = new MultiNormalizerStandardize();
        both.fitLabel(true);
        both.fit(new MultiDataSet(array(floats(6, 2, 5, 5), floats(6, 3).addi(2)), array(floats(6, 3), floats(6, 2).muli(9))));
        graph("graph", start(new Adam(0.01)).graphBuilder().addInputs("image", "numbers")
            .addLayer("conv", new ConvolutionLayer.Builder(3, 3).nOut(3).convolutionMode(ConvolutionMode.Same).activation(Activation.RELU).build(), "image")
            .addLayer("norm", new BatchNormalization.Builder().build(), "conv")
            .addLayer("conv2", new ConvolutionLayer.Builder(3, 3).nOut(3).convolutionMode(ConvolutionMode.Same).activation(Activation.IDENTITY).build(), "norm")
            .addVertex("residual", new ElementWiseVertex(ElementWiseVertex.Op.Add), "norm", "conv2")
            .addLayer("pool", new GlobalPoolingLayer.Builder(PoolingType.AVG).build(), "residual")
            .addLayer("hidden", new DenseLayer.Builder().nOut(4).activation(Activation.TANH).build(), "numbers")
            .addVertex("both", new MergeVertex(), "hidden", "pool")
            .addLayer("kind", output(0, 3), "both")
            .addLayer("size", new OutputLayer.Builder(LossFunction.MSE).nOut(2).activation(Activation.IDENTITY).build(), "both")
            .setOutputs("kind", "size")
            .setInputTypes(InputType.convolutional(5, 5, 2), InputType.feedForward(3)),
            both, array(floats(6, 2, 5, 5), floats(6, 3)), array(classes(6, 3), floats(6, 2)));
    }

    // --- what they have in common ---------------------------------------------------------------

    private static NeuralNetConfiguration.Builder start(IUpdater updater) {
        return new NeuralNetConfiguration.Builder().seed(seed).updater(updater).weightInit(new NormalDistribution(0, 0.5)).biasInit(0.1);
    }

    private static OutputLayer output(int nIn, int nOut) {
        OutputLayer.Builder builder = new OutputLayer.Builder(LossFunction.MCXENT).nOut(nOut).activation(Activation.SOFTMAX);
        return nIn == 0 ? builder.build() : builder.nIn(nIn).build();
    }

    private static RnnOutputLayer rnnOutput(int nIn, int nOut) {
        return new RnnOutputLayer.Builder(LossFunction.MCXENT).nIn(nIn).nOut(nOut).activation(Activation.SOFTMAX).build();
    }

    private static INDArray[] array(INDArray... arrays) { return arrays; }

    private static INDArray floats(long... shape) { return Nd4j.rand(DataType.FLOAT, shape).muli(2).subi(1); }

    private static INDArray integers(int rows, int limit, int columns) {
        INDArray found = Nd4j.rand(DataType.FLOAT, rows, columns).muli(limit);
        return found.castTo(DataType.INT).castTo(DataType.FLOAT);
    }

    private static INDArray classes(int rows, int count) {
        INDArray found = Nd4j.zeros(DataType.FLOAT, rows, count);
        for (int row = 0; row < rows; row++) found.putScalar(row, Nd4j.getRandom().nextInt(count), 1.0);
        return found;
    }

    private static INDArray steps(int rows, int count, int length) {
        INDArray found = Nd4j.zeros(DataType.FLOAT, rows, count, length);
        for (int row = 0; row < rows; row++)
            for (int step = 0; step < length; step++) found.putScalar(row, Nd4j.getRandom().nextInt(count), step, 1.0);
        return found;
    }

    private static void mln(String name, NeuralNetConfiguration.ListBuilder builder, InputType type, INDArray x, INDArray y, Object... more) throws Exception {
        if (type != null) builder.setInputType(type);
        MultiLayerNetwork network = new MultiLayerNetwork(builder.build());
        network.init();
        DataNormalization normalizer = more.length == 0 ? null : (DataNormalization) more[0];
        for (int step = 0; step < 3; step++) network.fit(x, y);
        File file = new File(folder, name + ".zip");
        ModelSerializer.writeModel(network, file, true);
        // `writeModel` with a normalizer closes the stream too early, with this commons-io.
        if (normalizer != null) ModelSerializer.addNormalizerToModel(file, normalizer);
        Map<String, INDArray> arrays = new LinkedHashMap<>();
        arrays.put("in0", x.dup());
        arrays.put("labels0", y.dup());
        arrays.put("out0", network.output(x, false).dup());
        arrays.put("score", Nd4j.scalar(network.score(new DataSet(x, y), false)));
        if (normalizer != null) {
            INDArray raw = (INDArray) more[1];
            arrays.put("raw0", raw.dup());
            DataSet data = new DataSet(raw.dup(), Nd4j.ones(DataType.FLOAT, raw.size(0), y.size(1)));
            normalizer.transform(data);
            arrays.put("normalized0", data.getFeatures());
            arrays.put("normalized-labels0", data.getLabels());
        }
        for (int step = 0; step < 2; step++) network.fit(x, y);
        arrays.put("after0", network.output(x, false).dup());
        save(name, arrays);
    }

    private static void graph(String name, ComputationGraphConfiguration.GraphBuilder builder, MultiDataNormalization normalizer, INDArray[] x, INDArray[] y) throws Exception {
        ComputationGraph network = new ComputationGraph(builder.build());
        network.init();
        MultiDataSet data = new MultiDataSet(x, y);
        for (int step = 0; step < 3; step++) network.fit(data);
        File file = new File(folder, name + ".zip");
        ModelSerializer.writeModel(network, file, true);
        Map<String, INDArray> arrays = new LinkedHashMap<>();
        if (normalizer != null) {
            ModelSerializer.addNormalizerToModel(file, normalizer);
            MultiDataSet scaled = new MultiDataSet(array(x[0].dup(), x[1].dup()), array(y[0].dup(), y[1].dup()));
            normalizer.transform(scaled);
            for (int i = 0; i < 2; i++) arrays.put("normalized" + i, scaled.getFeatures(i));
            for (int i = 0; i < 2; i++) arrays.put("normalized-labels" + i, scaled.getLabels(i));
        }
        for (int i = 0; i < x.length; i++) arrays.put("in" + i, x[i].dup());
        for (int i = 0; i < y.length; i++) arrays.put("labels" + i, y[i].dup());
        INDArray[] outputs = network.output(false, x);
        for (int i = 0; i < y.length; i++) arrays.put("out" + i, outputs[i].dup());
        arrays.put("score", Nd4j.scalar(network.score(data, false)));
        for (int step = 0; step < 2; step++) network.fit(data);
        outputs = network.output(false, x);
        for (int i = 0; i < y.length; i++) arrays.put("after" + i, outputs[i].dup());
        save(name, arrays);
    }

    private static void save(String name, Map<String, INDArray> arrays) throws Exception {
        try (ZipOutputStream zip = new ZipOutputStream(new FileOutputStream(new File(folder, name + ".npz")))) {
            for (Map.Entry<String, INDArray> each : arrays.entrySet()) {
                zip.putNextEntry(new ZipEntry(each.getKey() + ".npy"));
                zip.write(Nd4j.toNpyByteArray(each.getValue().dup('c')));
            }
        }
    }
}
