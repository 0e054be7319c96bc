package tfos.ml;

import java.util.List;
import org.apache.spark.ml.param.BooleanParam;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.StringArrayParam;
import org.apache.spark.ml.util.Identifiable;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.ml.util.MLWriter;

/**
 * Adds the outputs of a SavedModel to a DataFrame: of Keras' {@code export}, {@code
 * tf.saved_model.save} or TensorFlow 1. Its parameters are those of Python's {@code tfos.ml.Model}.
 *
 * <p>Without an input mapping each input has the column of its name; without an output mapping all
 * outputs become columns of their names. An output of one number for each row, as of the shape
 * [?, 1], becomes a column of plain numbers, as Spark's evaluators want it. What one of the two has
 * saved the other loads.
 */
public class TensorFlowModel extends ModelStage<TensorFlowModel> {
  private static final long serialVersionUID = 1;

  private final Param<String> modelDir =
      new Param<>(this, "modelDir", "directory of the SavedModel, which executors reach");
  private final Param<String> tags =
      new Param<>(this, "tags", "of the SavedModel's graph, separated by commas");
  private final Param<String> signature = new Param<>(this, "signature", "of the SavedModel");
  private final StringArrayParam binaryOutputs = new StringArrayParam(this, "binaryOutputs",
      "outputs whose strings are bytes (binary columns); those of others are text");
  private final StringArrayParam opLibraries = new StringArrayParam(this, "opLibraries",
      "files with ops of the model's own, which must be on every executor's host");
  private final BooleanParam keepInputs = new BooleanParam(this, "keepInputs",
      "whether transform keeps all columns in front of the outputs");

  public TensorFlowModel(String uid) {
    super(uid);
    setDefault(modelDir, "");
    setDefault(tags, "serve");
    setDefault(signature, "serving_default");
    setDefault(binaryOutputs, new String[0]);
    setDefault(opLibraries, new String[0]);
    setDefault(keepInputs, true);
  }

  public TensorFlowModel() {
    this(Identifiable.randomUID("TensorFlowModel"));
  }

  public static MLReader<TensorFlowModel> read() {
    return new SavedStage.Reader();
  }

  /** Copies the SavedModel along. */
  @Override
  public MLWriter write() {
    return new SavedStage.Writer(this);
  }

  public static TensorFlowModel load(String path) {
    return read().load(path);
  }

  public Param<String> modelDir() {
    return modelDir;
  }

  public String getModelDir() {
    return getOrDefault(modelDir);
  }

  public TensorFlowModel setModelDir(String directory) {
    set(modelDir, directory);
    return this;
  }

  public Param<String> tags() {
    return tags;
  }

  public String getTags() {
    return getOrDefault(tags);
  }

  public TensorFlowModel setTags(String value) {
    set(tags, value);
    return this;
  }

  public Param<String> signature() {
    return signature;
  }

  public String getSignature() {
    return getOrDefault(signature);
  }

  public TensorFlowModel setSignature(String name) {
    set(signature, name);
    return this;
  }

  public StringArrayParam binaryOutputs() {
    return binaryOutputs;
  }

  public String[] getBinaryOutputs() {
    return getOrDefault(binaryOutputs);
  }

  public TensorFlowModel setBinaryOutputs(String[] outputs) {
    set(binaryOutputs, outputs);
    return this;
  }

  public StringArrayParam opLibraries() {
    return opLibraries;
  }

  public String[] getOpLibraries() {
    return getOrDefault(opLibraries);
  }

  public TensorFlowModel setOpLibraries(String[] files) {
    set(opLibraries, files);
    return this;
  }

  public BooleanParam keepInputs() {
    return keepInputs;
  }

  public boolean getKeepInputs() {
    return (Boolean) getOrDefault(keepInputs);
  }

  public TensorFlowModel setKeepInputs(boolean value) {
    set(keepInputs, value);
    return this;
  }

  @Override
  protected Scoring scoring() {
    return new Scoring(getModelDir(), getTags(), getSignature(), List.of(getOpLibraries()),
        List.of(getBinaryOutputs()), getKeepInputs(), true);
  }

  @Override
  protected TensorFlowModel self() {
    return this;
  }
}
