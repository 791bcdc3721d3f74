/**
 * A response body that the database has already serialized. It is sent unchanged, because parsing and serializing it
 * again would cost more than the rest of the request. The caller guarantees that it matches the route's response
 * schema; see `rowAsJson`.
 */
export class RawJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A serialized response together with the value that the route's audit note is built from. */
export class AuditedJson<Source> extends RawJson {
  readonly source: Source;

  constructor(text: string, source: Source) {
    super(text);
    this.source = source;
  }
}
