package tfos.ml;

import java.util.Map;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.util.Identifiable;
import tfos.internal.base.Json;
import tfos.internal.spark.ScalaCollections;

/** A parameter of Spark ML that holds names by names, in their order. */
public final class MappingParam extends Param<scala.collection.immutable.Map<String, String>> {
  private static final long serialVersionUID = 1;

  public MappingParam(Identifiable parent, String name, String doc) {
    super(parent, name, doc);
  }

  @Override
  public String jsonEncode(scala.collection.immutable.Map<String, String> value) {
    return Json.text(toJava(value));
  }

  @Override
  public scala.collection.immutable.Map<String, String> jsonDecode(String json) {
    return toScala(Json.mapping(json));
  }

  public static Map<String, String> toJava(scala.collection.Map<String, String> map) {
    return ScalaCollections.toJava(map);
  }

  public static scala.collection.immutable.Map<String, String> toScala(Map<String, String> map) {
    return ScalaCollections.toScala(map);
  }
}
