package tfos.internal.inference;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.net.URI;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import tfos.internal.base.Json;

/**
 * A signature of a SavedModel on any file system of Hadoop's. Made by reading its files; nothing is
 * loaded.
 *
 * <p>Owner and lifetime: a value, which tasks get. Threads: any. Errors: {@link
 * IllegalArgumentException} for a directory that isn't such a model, {@link UncheckedIOException}.
 */
public final class SavedModel implements Serializable {
  private static final long serialVersionUID = 1;
  private static final String GRAPH = "saved_model.pb";

  /** Where a signature is found. */
  public static final class Source {
    private final String path;
    private final String tags;
    private final String signature;
    private final List<String> opLibraries;
    private final String python;

    /**
     * @param tags separated by commas
     * @param opLibraries files with ops of the model's own, on every host that runs it
     * @param python whose package TensorFlow is; "": the one that {@link TensorFlowLibrary} finds
     */
    public Source(String path, String tags, String signature, List<String> opLibraries,
        String python) {
      this.path = path;
      this.tags = tags;
      this.signature = signature;
      this.opLibraries = opLibraries;
      this.python = python;
    }
  }

  final String path;
  /** A JSON list. */
  final String tags;
  /** JSON. */
  final String signature;
  /** Changes when the graph, the variables or the assets do. */
  final String stamp;
  /** A JSON list. */
  final String opLibraries;
  private final String python;

  private SavedModel(Source source, String path, String tags, String signature, String stamp) {
    this.path = path;
    this.tags = tags;
    this.signature = signature;
    this.stamp = stamp;
    opLibraries = Json.text(source.opLibraries);
    python = source.python;
  }

  /** Reads the signature. */
  static SavedModel read(Source source, Configuration hadoop) {
    String path = source.path;
    if (path.isEmpty()) {
      throw new IllegalArgumentException("no model is set: the directory of a SavedModel");
    }
    String tagList = Json.text(
        Arrays.stream(source.tags.split(",")).map(String::strip).filter(tag -> !tag.isEmpty())
            .collect(Collectors.toList()));
    Path directory = new Path(path);
    try {
      FileSystem files = directory.getFileSystem(hadoop);
      Path qualified = files.makeQualified(directory);
      Content content = contentOf(files, qualified);
      String found;
      try {
        found = NativeModel.signature(content.graph, tagList, source.signature);
      } catch (IllegalArgumentException error) {
        throw new IllegalArgumentException(qualified + ": " + error.getMessage(), error);
      }
      return new SavedModel(source, qualified.toString(), tagList, found, content.stamp);
    } catch (IOException error) {
      throw new UncheckedIOException("reading the SavedModel " + path, error);
    }
  }

  private static final class Content {
    private final byte[] graph;
    private final String stamp;

    Content(byte[] graph, String stamp) {
      this.graph = graph;
      this.stamp = stamp;
    }
  }

  private static Content contentOf(FileSystem files, Path directory) throws IOException {
    Path graph = new Path(directory, GRAPH);
    if (!files.exists(graph)) {
      throw new IllegalArgumentException(whyNone(files, directory));
    }
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      byte[] content = readAll(files, graph);
      digest.update(content);
      // It has a checksum of each variable.
      Path index = new Path(directory, "variables/variables.index");
      if (files.exists(index)) {
        digest.update(readAll(files, index));
      }
      // Nothing else tells of them: vocabularies that differ leave the graph as it was.
      Path assets = new Path(directory, "assets");
      if (files.exists(assets)) {
        addFiles(digest, files, assets, "");
      }
      return new Content(content, String.format("%064x", new BigInteger(1, digest.digest())));
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error); // Every Java has it.
    }
  }

  /** Adds the names and contents of all files below a directory. */
  private static void addFiles(MessageDigest digest, FileSystem files, Path directory, String above)
      throws IOException, NoSuchAlgorithmException {
    FileStatus[] found = files.listStatus(directory);
    Arrays.sort(found); // By their paths.
    for (FileStatus file : found) {
      String name = above + "/" + file.getPath().getName();
      if (file.isDirectory()) {
        addFiles(digest, files, file.getPath(), name);
        continue;
      }
      MessageDigest content = MessageDigest.getInstance("SHA-256");
      try (InputStream stream = new DigestInputStream(files.open(file.getPath()), content)) {
        stream.transferTo(OutputStream.nullOutputStream()); // It may be large.
      }
      byte[] text = name.getBytes(StandardCharsets.UTF_8);
      digest.update(ByteBuffer.allocate(Long.BYTES).putLong(text.length).array());
      digest.update(text);
      digest.update(content.digest());
    }
  }

  private static byte[] readAll(FileSystem files, Path path) throws IOException {
    try (InputStream stream = files.open(path)) {
      return stream.readAllBytes();
    }
  }

  private static String whyNone(FileSystem files, Path directory) throws IOException {
    boolean exists = files.exists(directory);
    boolean isDirectory = exists && files.getFileStatus(directory).isDirectory();
    List<String> below = new ArrayList<>();
    for (FileStatus found : isDirectory ? files.listStatus(directory) : new FileStatus[0]) {
      if (found.isDirectory() && files.exists(new Path(found.getPath(), GRAPH))) {
        below.add(found.getPath().toString());
      }
    }
    return NativeModel.whyNone(directory.toString(), exists, isDirectory, Json.text(below));
  }

  /** Inputs or outputs, by their names in the signature. */
  List<String> names(String which) {
    List<String> names = new ArrayList<>();
    Json.parse(signature).get(which).forEach(tensor -> names.add(tensor.get("name").asText()));
    return names;
  }

  /**
   * The name in the signature of an input or output that may be given as that of the graph, "x" or
   * "x:0", as programs of tensorflowonspark give it. A name of neither is left as it is.
   */
  String nameOf(String which, String given) {
    List<String> names = names(which);
    if (names.contains(given)) {
      return given;
    }
    String edge = given.contains(":") ? given : given + ":0";
    for (JsonNode tensor : Json.parse(signature).get(which)) {
      if (tensor.get("edge").asText().equals(edge)) {
        return tensor.get("name").asText();
      }
    }
    return given;
  }

  /** Loads it on this host; the handle of a session. */
  long load(Configuration hadoop, int threads) {
    Path directory = new Path(path);
    try {
      FileSystem files = directory.getFileSystem(hadoop);
      if (!contentOf(files, directory).stamp.equals(stamp)) {
        throw new IllegalArgumentException(path
            + " on this host is not the model that was checked: it was written anew meanwhile, or "
            + "hosts have different copies of it");
      }
      URI uri = directory.toUri();
      if (uri.getScheme().equals("file")) {
        return load(uri.getPath(), threads);
      }
      // TensorFlow itself knows no other file system here. It needs the files only to load them.
      java.nio.file.Path copy = Files.createTempDirectory("tfos-saved-model");
      try {
        java.nio.file.Path local = copy.resolve("model");
        FileUtil.copy(files, directory, FileSystem.getLocal(hadoop), new Path(local.toUri()), false,
            hadoop);
        return load(local.toString(), threads);
      } finally {
        FileUtil.fullyDelete(copy.toFile());
      }
    } catch (IOException error) {
      throw new UncheckedIOException("loading the SavedModel " + path, error);
    }
  }

  private long load(String directory, int threads) {
    return NativeModel.load(TensorFlowLibrary.directory(python), directory, tags, opLibraries,
        threads);
  }
}
