package tfos.internal.inference;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;

/**
 * Where the TensorFlow of this host is: the directory that the Python package has its libraries in.
 *
 * <p>That is what {@code TFOS_TENSORFLOW} names, else the package of the Python that Spark uses on
 * this host. Threads: any. Errors: {@link UnsupportedOperationException}, with what was tried.
 */
public final class TensorFlowLibrary {
  private static final String VARIABLE = "TFOS_TENSORFLOW";
  private static final String LIBRARY = "libtensorflow_cc.so.2";
  private static final long PYTHON_SECONDS = 60;
  // It looks for no package in the working directory, which may be anybody's. Python's option for
  // that, -P, is newer than some that have a TensorFlow.
  private static final String PROGRAM = "import sys; sys.path = [p for p in sys.path if p]; "
      + "import importlib.util, os; "
      + "found = importlib.util.find_spec('tensorflow'); "
      + "print(os.path.dirname(found.origin) if found and found.origin else '')";

  private TensorFlowLibrary() {}

  /** The directory of that Python's package; "": of the one that Spark uses on this host. */
  static String directory(String python) {
    return find(System.getenv(VARIABLE), python.isEmpty() ? python() : python);
  }

  /** With what the variable has, or null, and a Python. */
  public static String find(String named, String python) {
    if (named != null && !named.isEmpty()) {
      return checked(named, VARIABLE + " names " + named);
    }
    String found = ask(python);
    if (found.isEmpty()) {
      throw missing("the Python of this host, " + python + ", has no package tensorflow");
    }
    return checked(found, python + " has its tensorflow in " + found);
  }

  private static String checked(String directory, String what) {
    if (!Files.exists(Path.of(directory, LIBRARY))) {
      throw missing(what + ", which has no " + LIBRARY);
    }
    return directory;
  }

  private static UnsupportedOperationException missing(String what) {
    return new UnsupportedOperationException("TensorFlow's library was not found: " + what
        + ". Install tensorflow 2.16 or newer for that Python on every host, set "
        + "spark.pyspark.python to one that has it, or name the package's directory by "
        + "spark.executorEnv." + VARIABLE + " and, for the driver, " + VARIABLE
        + ". Python programs can leave models to Python workers: spark.tfos.inference.jvm=off");
  }

  /** As tfos chooses the Python of nodes, and Spark that of its workers. */
  private static String python() {
    SparkEnv spark = SparkEnv.get();
    SparkConf conf = spark == null ? new SparkConf() : spark.conf();
    for (String key : List.of("spark.tfos.python", "spark.pyspark.python")) {
      String named = conf.get(key, "");
      if (!named.isEmpty()) {
        return named;
      }
    }
    String named = System.getenv("PYSPARK_PYTHON");
    return named == null || named.isEmpty() ? "python3" : named;
  }

  private static String ask(String python) {
    Process process = null;
    try {
      process = new ProcessBuilder(python, "-c", PROGRAM)
          .redirectError(ProcessBuilder.Redirect.INHERIT).start();
      process.getOutputStream().close();
      InputStream output = process.getInputStream();
      // A reader of its own: a deadline does not help a thread that waits for a line.
      CompletableFuture<String> answer = CompletableFuture.supplyAsync(() -> read(output));
      return answer.get(PYTHON_SECONDS, TimeUnit.SECONDS);
    } catch (TimeoutException error) {
      throw missing(python + " did not answer within " + PYTHON_SECONDS + " s");
    } catch (ExecutionException error) {
      throw missing("what " + python + " says can't be read (" + error.getCause() + ")");
    } catch (IOException error) {
      throw missing(python + " could not be started (" + error.getMessage() + ")");
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw missing("interrupted while " + python + " was asked");
    } finally {
      if (process != null) {
        process.destroyForcibly();
      }
    }
  }

  private static String read(InputStream output) {
    try {
      return new String(output.readAllBytes(), StandardCharsets.UTF_8).strip();
    } catch (IOException error) {
      return "";
    }
  }
}
