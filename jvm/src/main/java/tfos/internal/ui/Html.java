package tfos.internal.ui;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.Locale;

/** Values of an event as HTML: whatever they are, and never as tags. Threads: any. */
final class Html {
  /** As Spark's own pages have it. */
  private static final DateTimeFormatter MOMENT = DateTimeFormatter.ofPattern("yyyy/MM/dd HH:mm:ss");

  private Html() {}

  static String escaped(String text) {
    StringBuilder html = new StringBuilder(text.length());
    for (int at = 0; at < text.length(); at++) {
      char character = text.charAt(at);
      switch (character) {
        case '&': html.append("&amp;"); break;
        case '<': html.append("&lt;"); break;
        case '>': html.append("&gt;"); break;
        case '"': html.append("&quot;"); break;
        case '\'': html.append("&#x27;"); break;
        default: html.append(character);
      }
    }
    return html.toString();
  }

  /** Empty where there is none. */
  static String text(JsonNode value) {
    return escaped(value.isNull() ? "" : value.asText());
  }

  /** With at most four digits behind the point, or a text as it is; empty where there is none. */
  static String number(JsonNode value) {
    if (!value.isNumber()) {
      return text(value);
    }
    double number = value.doubleValue();
    if (number == Math.rint(number) && Math.abs(number) < 1e15) {
      return String.format(Locale.ROOT, "%,d", (long) number);
    }
    return String.format(Locale.ROOT, Math.abs(number) < 0.001 ? "%.3g" : "%,.4f", number);
  }

  /** A rate, which nobody wants to know that exactly. */
  static String rate(JsonNode value) {
    double number = value.asDouble();
    return value.isNumber() ? String.format(Locale.ROOT, number < 100 ? "%,.1f" : "%,.0f", number)
        : "";
  }

  /** By the clock of this process, as Spark shows it. */
  static String moment(long ms) {
    return MOMENT.format(Instant.ofEpochMilli(ms).atZone(ZoneId.systemDefault()));
  }

  /** Such as {@code 1:02:03}. */
  static String duration(long ms) {
    Duration time = Duration.ofMillis(Math.max(0, ms));
    return String.format(Locale.ROOT, "%d:%02d:%02d",
        time.toHours(), time.toMinutesPart(), time.toSecondsPart());
  }
}
