package tfos.ml;

import java.util.List;
import java.util.Map;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.param.IntParam;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.param.Params;
import org.apache.spark.ml.util.DefaultParamsWritable;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;
import tfos.internal.inference.Inference;
import tfos.internal.inference.SavedModel;

/**
 * What the models of this jar have in common: a stage of Spark ML over a SavedModel, that is saved
 * and loaded with its parameters.
 *
 * @param <M> the model itself
 */
public abstract class ModelStage<M extends ModelStage<M>> extends Model<M>
    implements DefaultParamsWritable {
  private static final long serialVersionUID = 1;

  /** What differs between the models of this jar. */
  protected static final class Scoring {
    private final SavedModel.Source source;
    private final List<String> binaryOutputs;
    private final boolean keepInputs;
    private final boolean unwrap;

    /**
     * @param tags separated by commas
     * @param opLibraries files with ops of the model's own, on every host that runs it
     * @param binaryOutputs outputs whose strings are bytes
     * @param keepInputs results have the columns that there were in front of the outputs
     * @param unwrap an output of one value a row, as of the shape [?, 1], becomes a plain value
     */
    public Scoring(String modelDir, String tags, String signature, List<String> opLibraries,
        List<String> binaryOutputs, boolean keepInputs, boolean unwrap) {
      source = new SavedModel.Source(modelDir, tags, signature, opLibraries, "");
      this.binaryOutputs = binaryOutputs;
      this.keepInputs = keepInputs;
      this.unwrap = unwrap;
    }
  }

  private final String uid;
  private final IntParam batchSize;
  private final MappingParam inputMapping;
  private final MappingParam outputMapping;

  protected ModelStage(String uid) {
    this.uid = uid; // First: the parameters ask for it.
    batchSize = new IntParam(this, "batchSize", "rows that the model gets at a time");
    inputMapping = new MappingParam(this, "inputMapping", "column -> input of the model");
    outputMapping = new MappingParam(this, "outputMapping", "output of the model -> column");
    setDefault(batchSize, 128);
    setDefault(inputMapping, MappingParam.toScala(Map.of()));
    setDefault(outputMapping, MappingParam.toScala(Map.of()));
  }

  /** Which model it is and how its results come, as the parameters of a subclass say. */
  protected abstract Scoring scoring();

  protected abstract M self();

  @Override
  public String uid() {
    return uid;
  }

  public IntParam batchSize() {
    return batchSize;
  }

  public int getBatchSize() {
    return (Integer) getOrDefault(batchSize);
  }

  public M setBatchSize(int value) {
    set(batchSize, value);
    return self();
  }

  public MappingParam inputMapping() {
    return inputMapping;
  }

  public scala.collection.immutable.Map<String, String> getInputMapping() {
    return getOrDefault(inputMapping);
  }

  public M setInputMapping(scala.collection.immutable.Map<String, String> columnsToInputs) {
    set(inputMapping, columnsToInputs);
    return self();
  }

  public M setInputMapping(Map<String, String> columnsToInputs) {
    return setInputMapping(MappingParam.toScala(columnsToInputs));
  }

  public MappingParam outputMapping() {
    return outputMapping;
  }

  public scala.collection.immutable.Map<String, String> getOutputMapping() {
    return getOrDefault(outputMapping);
  }

  public M setOutputMapping(scala.collection.immutable.Map<String, String> outputsToColumns) {
    set(outputMapping, outputsToColumns);
    return self();
  }

  public M setOutputMapping(Map<String, String> outputsToColumns) {
    return setOutputMapping(MappingParam.toScala(outputsToColumns));
  }

  /** Errors: {@link IllegalArgumentException} before anything runs if the columns don't fit. */
  @Override
  public Dataset<Row> transform(Dataset<?> dataset) {
    return new Inference(dataset.sparkSession(), dataset.schema(), options()).apply(dataset);
  }

  @Override
  public StructType transformSchema(StructType schema) {
    return new Inference(SparkSession.active(), schema, options()).schema();
  }

  private Inference.Options options() {
    Scoring scoring = scoring();
    return new Inference.Options(scoring.source,
        Inference.Input.listOf(MappingParam.toJava(getInputMapping())),
        MappingParam.toJava(getOutputMapping()), scoring.binaryOutputs, getBatchSize(),
        scoring.keepInputs, scoring.unwrap);
  }

  @Override
  public M copy(ParamMap extra) {
    Params copied = defaultCopy(extra);
    @SuppressWarnings("unchecked")
    M model = (M) copied;
    return model.setParent(parent());
  }
}
