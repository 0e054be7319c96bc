package tfos.internal.inference;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;

/**
 * The sessions of this process that were used last: tasks that come one after the other, and those
 * of one time, share them.
 *
 * <p>Threads: any; loading makes others wait, as they most likely want the same.
 */
final class Sessions {
  /** A process that runs many models, as in a search for parameters, does not keep them all. */
  private static final int MOST = 2;

  private static final class Session {
    private final String stamp;
    private final long handle;

    Session(String stamp, long handle) {
      this.stamp = stamp;
      this.handle = handle;
    }
  }

  /** By path, tags, libraries and threads. */
  private static final Map<List<Object>, Session> KEPT = new LinkedHashMap<>();

  private Sessions() {}

  /** A runner over the session of a model, whose files are loaded where they aren't yet. */
  static synchronized long newRunner(SavedModel model, String request, int threads,
      Configuration hadoop) {
    List<Object> key = List.of(model.path, model.tags, model.opLibraries, threads);
    Session session = KEPT.remove(key);
    if (session != null && !session.stamp.equals(model.stamp)) {
      NativeModel.unload(session.handle);
      session = null;
    }
    if (session == null) {
      // First, so that there is memory for the new one.
      while (KEPT.size() >= MOST) {
        NativeModel.unload(KEPT.remove(KEPT.keySet().iterator().next()).handle);
      }
      session = new Session(model.stamp, model.load(hadoop, threads));
    }
    KEPT.put(key, session);
    return NativeModel.newRunner(session.handle, request);
  }
}
