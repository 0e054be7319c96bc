package tfos.internal.base;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.TreeSet;

/**
 * The C++ part of tfos, which this jar contains.
 *
 * <p>Every class with native methods calls {@link #load} from a static initializer. The library is
 * loaded once for each class loader that has this class, each time from a file of its own: Java
 * refuses one file to a second loader, and Spark gives jars of sessions a loader each.
 *
 * <p>Threads: any. Errors: {@link UnsatisfiedLinkError}, which says what this host lacks.
 */
public final class NativeLibrary {
  /** Java's names of the processors that tfos is built for, and GCC's, which name the folders. */
  private static final Map<String, String> MACHINES =
      Map.of("amd64", "x86_64", "aarch64", "aarch64");

  static {
    loadOnce();
  }

  private NativeLibrary() {}

  /** Loads the library unless it is loaded. */
  public static void load() {}

  /** The version of the C++ part, such as "0.1.0". */
  public static native String version();

  private static void loadOnce() {
    String machine = MACHINES.get(System.getProperty("os.arch"));
    if (machine == null || !System.getProperty("os.name").equals("Linux")) {
      throw new UnsatisfiedLinkError("tfos has native libraries for Linux on "
          + String.join(" and ", new TreeSet<>(MACHINES.keySet())) + "; this JVM says that it is "
          + System.getProperty("os.name") + " on " + System.getProperty("os.arch"));
    }
    String resource = "/tfos/native/linux-" + machine + "/libtfos_jvm.so";
    Path directory = Path.of(System.getProperty("java.io.tmpdir"));
    Path file = null;
    try (InputStream library = NativeLibrary.class.getResourceAsStream(resource)) {
      if (library == null) {
        throw new UnsatisfiedLinkError("this jar of tfos has no native library for this processor ("
            + resource + "): use the one in the wheel, which `python -c 'import tfos; "
            + "print(tfos.jar_path())'` names, on a host like this one");
      }
      file = Files.createTempFile(directory, "libtfos_jvm", ".so");
      Files.copy(library, file, StandardCopyOption.REPLACE_EXISTING);
      System.load(file.toString());
    } catch (IOException error) {
      throw linkError("the native library of tfos could not be written to " + directory
          + ": name a directory with room by -Djava.io.tmpdir (spark.executor.extraJavaOptions, "
          + "spark.driver.extraJavaOptions)", error);
    } catch (UnsatisfiedLinkError error) {
      if (file == null) {
        throw error;
      }
      throw linkError("the native library of tfos could not be loaded from " + file
          + ": it needs glibc on this host, and a directory that allows executing "
          + "(-Djava.io.tmpdir names another)", error);
    } finally {
      delete(file);
    }
    checkVersion();
  }

  /** A process that has loaded a file needs its name no more. */
  private static void delete(Path file) {
    if (file == null) {
      return;
    }
    try {
      Files.deleteIfExists(file);
    } catch (IOException error) {
      file.toFile().deleteOnExit();
    }
  }

  /** Two versions of the jar on a class path mix classes of one with the library of the other. */
  private static void checkVersion() {
    String wanted = NativeLibrary.class.getPackage().getImplementationVersion();
    String found = version();
    if (wanted != null && !wanted.equals(found)) {
      throw new UnsatisfiedLinkError("the classes of tfos are version " + wanted
          + " and the native library is " + found + ": leave one jar of tfos on the class path");
    }
  }

  private static UnsatisfiedLinkError linkError(String message, Throwable cause) {
    UnsatisfiedLinkError error = new UnsatisfiedLinkError(message + ": " + cause.getMessage());
    error.initCause(cause);
    return error;
  }
}
