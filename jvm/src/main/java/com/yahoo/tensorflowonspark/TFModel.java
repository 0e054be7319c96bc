package com.yahoo.tensorflowonspark;

import java.util.List;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.util.DefaultParamsReader;
import org.apache.spark.ml.util.Identifiable;
import org.apache.spark.ml.util.MLReader;
import tfos.ml.MappingParam;
import tfos.ml.ModelStage;

/**
 * A Spark ML model over a SavedModel, as programs of tensorflowonspark use it: the result has the
 * columns of the output mapping and no others. {@code tfos.ml.TensorFlowModel} keeps them all.
 *
 * <p>Inputs and outputs have their names in the signature; those in the graph are understood too.
 */
public class TFModel extends ModelStage<TFModel> {
  private static final long serialVersionUID = 1;

  private final Param<String> model =
      new Param<>(this, "model", "directory of the SavedModel, on any file system of Hadoop's");
  private final Param<String> tag =
      new Param<>(this, "tag", "tags of the graph in the SavedModel, separated by commas");
  private final Param<String> signatureDefKey =
      new Param<>(this, "signatureDefKey", "name of the signature of the SavedModel");

  public TFModel(String uid) {
    super(uid);
    setDefault(model, "");
    setDefault(tag, "serve");
    setDefault(signatureDefKey, "serving_default");
  }

  public TFModel() {
    this(Identifiable.randomUID("tfmodel"));
  }

  public static MLReader<TFModel> read() {
    return new DefaultParamsReader<>();
  }

  public static TFModel load(String path) {
    return read().load(path);
  }

  public Param<String> model() {
    return model;
  }

  public String getModel() {
    return getOrDefault(model);
  }

  public TFModel setModel(String directory) {
    set(model, directory);
    return this;
  }

  public Param<String> tag() {
    return tag;
  }

  public String getTag() {
    return getOrDefault(tag);
  }

  public TFModel setTag(String value) {
    set(tag, value);
    return this;
  }

  public Param<String> signatureDefKey() {
    return signatureDefKey;
  }

  public String getSignatureDefKey() {
    return getOrDefault(signatureDefKey);
  }

  public TFModel setSignatureDefKey(String name) {
    set(signatureDefKey, name);
    return this;
  }

  @Override
  protected Scoring scoring() {
    if (MappingParam.toJava(getOutputMapping()).isEmpty()) {
      throw new IllegalArgumentException("outputMapping is empty: it says which outputs of the "
          + "model become columns, and how these are called");
    }
    return new Scoring(
        getModel(), getTag(), getSignatureDefKey(), List.of(), List.of(), false, false);
  }

  @Override
  protected TFModel self() {
    return this;
  }
}
