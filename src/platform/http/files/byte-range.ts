/** Bytes of a file, both ends included. */
export interface ByteRange {
  first: number;
  last: number;
}

/**
 * What the header `Range` asks for of a file of `size` bytes (RFC 9110, 14.1.2). `all` where it is absent or has a form
 * that is not supported, which the standard allows; `none` where the file has no such bytes.
 */
export function byteRange(header: string | undefined, size: number): ByteRange | 'all' | 'none' {
  const [, from, to] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? [];
  if (from === undefined || to === undefined || (from === '' && to === '')) return 'all';
  if (from === '') {
    const length = Math.min(Number(to), size);
    return length === 0 ? 'none' : { first: size - length, last: size - 1 };
  }
  const first = Number(from);
  const last = to === '' ? size - 1 : Math.min(Number(to), size - 1);
  if (to !== '' && Number(to) < first) return 'all';
  return first >= size ? 'none' : { first, last };
}
