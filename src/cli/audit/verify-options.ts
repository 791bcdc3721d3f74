/** Of `muster audit verify`, as commander gives them. */
export interface VerifyOptions {
  bundle?: string;
  org?: string;
  database?: string | true;
  keys?: string;
  known?: string;
  json?: true;
}
