/** The options of `muster audit verify`, as commander parses them. */
export interface VerifyOptions {
  bundle?: string;
  org?: string;
  database?: string | true;
  keys?: string;
  known?: string;
  json?: true;
}
