/** A text as one word of a POSIX shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** The command that reads an address of the API. The token stays out of it, because commands are kept and shared. */
export const curlOf = (url: string): string =>
  `curl --fail-with-body -H "Authorization: Bearer $MUSTER_TOKEN" ${quoted(url)}`;
