/**
 * An answer that is JSON already, made by the database: sent as it is, where parsing and printing it again would cost
 * more than the rest of the request. Whoever makes one sees to it that it is what the route's response says; see
 * `rowAsJson`.
 */
export class ReadyJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** The same of a deed, with what the audit note is made of. */
export class ToldJson<Told> extends ReadyJson {
  readonly told: Told;

  constructor(text: string, told: Told) {
    super(text);
    this.told = told;
  }
}
