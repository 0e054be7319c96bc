package tfos.ml;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.spark.ml.util.DefaultParamsReader;
import org.apache.spark.ml.util.DefaultParamsWriter;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.ml.util.MLWriter;
import tfos.internal.spark.Sql;

/**
 * A {@link TensorFlowModel} on a file system: its parameters as Spark ML keeps them, and beside
 * them its SavedModel, so that what was saved can be moved. Python's {@code tfos.ml.Model} reads
 * and writes the same.
 *
 * <p>Threads: one at a time. Errors: {@link UncheckedIOException}, naming both directories;
 * {@link IllegalArgumentException} for a save that would harm the SavedModel, or has none to copy.
 */
final class SavedStage {
  private static final String SAVED_MODEL = "saved_model";

  private SavedStage() {}

  static final class Writer extends MLWriter {
    private final TensorFlowModel model;

    Writer(TensorFlowModel model) {
      this.model = model;
    }

    @Override
    public void save(String path) throws IOException {
      requireSavedModel();
      if (!model.getModelDir().isEmpty()) {
        String saved = qualified(model.getModelDir());
        String target = qualified(path);
        // Spark deletes what is there before saveImpl gets a say.
        if (shouldOverwrite() && (saved + "/").startsWith(target + "/")) {
          throw new IllegalArgumentException("the SavedModel " + saved + " is part of " + target
              + ", which this save would delete: save the stage to another directory");
        }
        if ((target + "/").startsWith(saved + "/")) {
          throw new IllegalArgumentException(target + " is in the SavedModel " + saved
              + ", which this save would copy there: save the stage to another directory");
        }
      }
      super.save(path);
    }

    private String qualified(String path) throws IOException {
      Path given = new Path(path);
      return given.getFileSystem(Sql.hadoop(sparkSession())).makeQualified(given).toString();
    }

    @Override
    public void saveImpl(String path) {
      requireSavedModel();
      DefaultParamsWriter parameters = new DefaultParamsWriter(model);
      parameters.session(sparkSession());
      parameters.saveImpl(path);
      if (!model.getModelDir().isEmpty()) {
        copy(new Path(model.getModelDir()), new Path(path, SAVED_MODEL),
            Sql.hadoop(sparkSession()));
      }
    }

    /** Pipelines call saveImpl alone, after Spark has deleted what was to be overwritten. */
    private void requireSavedModel() {
      if (model.getModelDir().isEmpty()) {
        return;
      }
      Path saved = new Path(model.getModelDir());
      try {
        if (!saved.getFileSystem(Sql.hadoop(sparkSession())).exists(saved)) {
          throw new IllegalArgumentException("the SavedModel " + saved + " of stage " + model.uid()
              + " is not there, so the stage can't be saved. A pipeline that is saved with"
              + " overwrite() over the directory that it was loaded from loses its SavedModels"
              + " before: save it to another directory. To save this one, set modelDir to another"
              + " copy of the SavedModel");
        }
      } catch (IOException error) {
        throw new UncheckedIOException("looking for the SavedModel " + saved, error);
      }
    }

    private static void copy(Path from, Path to, Configuration hadoop) {
      try {
        FileUtil.copy(
            from.getFileSystem(hadoop), from, to.getFileSystem(hadoop), to, false, hadoop);
      } catch (IOException error) {
        throw new UncheckedIOException("copying the SavedModel " + from + " to " + to, error);
      }
    }
  }

  static final class Reader extends MLReader<TensorFlowModel> {
    @Override
    public TensorFlowModel load(String path) {
      DefaultParamsReader<TensorFlowModel> parameters = new DefaultParamsReader<>();
      parameters.session(sparkSession());
      TensorFlowModel model = parameters.load(path);
      Path saved = new Path(path, SAVED_MODEL);
      try {
        FileSystem files = saved.getFileSystem(Sql.hadoop(sparkSession()));
        return files.exists(saved)
            ? model.setModelDir(files.makeQualified(saved).toString()) : model;
      } catch (IOException error) {
        throw new UncheckedIOException("looking for the SavedModel " + saved, error);
      }
    }
  }
}
