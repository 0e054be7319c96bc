package tfos.feed;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;

/** Vectors of Spark ML, as the structs that they are in rows. */
final class VectorColumn extends Column {
  private static final int TYPE = 0;
  private static final int SIZE = 1;
  private static final int INDICES = 2;
  private static final int VALUES = 3;
  private static final String[] NAMES = {"type", "size", "indices", "values"};
  private static final byte DENSE = 1;
  private static final Memory[] NO_BUFFERS = {};

  private final Column[] fields;

  VectorColumn() {
    this(new Column[] {
      new NumberColumn("c", NumberColumn.Kind.BYTE),
      new NumberColumn("i", NumberColumn.Kind.INT),
      new ListColumn(new NumberColumn("i", NumberColumn.Kind.INT), false),
      new ListColumn(new NumberColumn("g", NumberColumn.Kind.DOUBLE), false)});
  }

  private VectorColumn(Column[] fields) {
    super("+s", fields);
    this.fields = fields;
  }

  @Override
  Memory[] buffers() {
    return NO_BUFFERS;
  }

  @Override
  String childName(int child) {
    return NAMES[child];
  }

  @Override
  void write(SpecializedGetters from, int ordinal) {
    InternalRow vector = from.getStruct(ordinal, NAMES.length);
    fields[TYPE].append(vector, TYPE);
    fields[VALUES].append(vector, VALUES);
    // A dense vector has nulls there.
    boolean dense = !vector.isNullAt(TYPE) && vector.getByte(TYPE) == DENSE;
    for (int field : new int[] {SIZE, INDICES}) {
      if (dense) {
        fields[field].appendZero();
      } else {
        fields[field].append(vector, field);
      }
    }
  }

  @Override
  void writeZero() {
    for (Column field : fields) {
      field.appendZero();
    }
  }
}
