import { crc32 } from 'node:zlib';

/**
 * Checks that bytes are exactly one complete image of a type. Data after the end of the image is refused, because it
 * could be a second, hidden file. The pixels are not decoded.
 */

export interface ImageSize {
  width: number;
  height: number;
}

export const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/webp'] as const;
export type ImageType = (typeof IMAGE_TYPES)[number];

/** The size of an image in pixels. Undefined if the bytes are not exactly one image of the type. */
export function imageSize(type: ImageType, bytes: Buffer): ImageSize | undefined {
  const size = READERS[type](bytes);
  return size !== undefined && size.width > 0 && size.height > 0 ? size : undefined;
}

const READERS: Record<ImageType, (bytes: Buffer) => ImageSize | undefined> = {
  'image/png': pngSize,
  'image/jpeg': jpegSize,
  'image/webp': webpSize,
};

const PNG_SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/**
 * A PNG consists of chunks with checksums: first the header, then others, of which some contain pixels, then the end.
 */
function pngSize(bytes: Buffer): ImageSize | undefined {
  if (!bytes.subarray(0, 8).equals(PNG_SIGNATURE)) return undefined;
  let size: ImageSize | undefined;
  let hasPixels = false;
  for (let at = 8; at + 12 <= bytes.length; ) {
    const length = bytes.readUInt32BE(at);
    const end = at + 12 + length;
    if (end > bytes.length) return undefined;
    const type = bytes.toString('latin1', at + 4, at + 8);
    if (crc32(bytes.subarray(at + 4, end - 4)) !== bytes.readUInt32BE(end - 4)) return undefined;
    if ((at === 8) !== (type === 'IHDR')) return undefined;
    if (type === 'IHDR') {
      if (length !== 13) return undefined;
      size = { width: bytes.readUInt32BE(at + 8), height: bytes.readUInt32BE(at + 12) };
    }
    if (type === 'IDAT' && length > 0) hasPixels = true;
    if (type === 'IEND') return length === 0 && end === bytes.length && hasPixels ? size : undefined;
    at = end;
  }
  return undefined;
}

const [SOI, EOI, SOS] = [0xd8, 0xd9, 0xda];
/** The markers C4, C8 and CC are in the range of the frame headers, but have another meaning. */
const isFrameHeader = (marker: number) =>
  marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;

/** A JPEG consists of segments. Its last two bytes are the end marker. */
function jpegSize(bytes: Buffer): ImageSize | undefined {
  if (bytes[0] !== 0xff || bytes[1] !== SOI) return undefined;
  let size: ImageSize | undefined;
  let hasPixels = false;
  for (let at = 2; at + 2 <= bytes.length; ) {
    if (bytes[at] !== 0xff) return undefined;
    const marker = bytes[at + 1] ?? 0;
    if (marker === EOI) return at + 2 === bytes.length && hasPixels ? size : undefined;
    // 0xff may be repeated in front of a marker.
    if (marker === 0xff) {
      at += 1;
      continue;
    }
    if (at + 4 > bytes.length) return undefined;
    const length = bytes.readUInt16BE(at + 2);
    const end = at + 2 + length;
    if (length < 2 || end > bytes.length) return undefined;
    if (isFrameHeader(marker)) {
      if (length < 8 || size !== undefined) return undefined;
      size = { height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) };
    }
    if (marker === SOS) {
      const next = endOfScan(bytes, end);
      hasPixels ||= next > end;
      at = next;
    } else at = end;
  }
  return undefined;
}

/**
 * The position of the next marker after a scan. The data of a scan may contain restart markers, and 0xff followed by
 * zero.
 */
function endOfScan(bytes: Buffer, start: number): number {
  let at = bytes.indexOf(0xff, start);
  while (at !== -1) {
    const next = bytes[at + 1] ?? 0;
    if (next !== 0 && (next < 0xd0 || next > 0xd7)) return at;
    at = bytes.indexOf(0xff, at + 2);
  }
  return bytes.length;
}

/** A WebP is a RIFF file: its header has its length, and its chunks fill it. One of them must contain pixels. */
function webpSize(bytes: Buffer): ImageSize | undefined {
  const fourAt = (at: number) => bytes.toString('latin1', at, at + 4);
  if (bytes.length < 20 || fourAt(0) !== 'RIFF' || fourAt(8) !== 'WEBP') return undefined;
  if (bytes.readUInt32LE(4) + 8 !== bytes.length) return undefined;
  let size: ImageSize | undefined;
  let hasPixels = false;
  let at = 12;
  while (at + 8 <= bytes.length) {
    const length = bytes.readUInt32LE(at + 4);
    const end = at + 8 + length;
    if (end > bytes.length) return undefined;
    const type = fourAt(at);
    const content = bytes.subarray(at + 8, end);
    if (at === 12) {
      size = WEBP_HEADERS[type]?.(content);
      if (size === undefined) return undefined;
    }
    hasPixels ||= ['VP8 ', 'VP8L', 'ANMF'].includes(type);
    // Chunks begin at even positions.
    at = end + (length % 2);
  }
  return at === bytes.length && hasPixels ? size : undefined;
}

/** The chunks that a WebP file can begin with. */
const WEBP_HEADERS: Record<string, (content: Buffer) => ImageSize | undefined> = {
  'VP8 ': (content) =>
    content.length >= 10 && content.readUIntBE(3, 3) === 0x9d012a
      ? { width: content.readUInt16LE(6) & 0x3fff, height: content.readUInt16LE(8) & 0x3fff }
      : undefined,
  VP8L(content) {
    if (content.length < 5 || content[0] !== 0x2f) return undefined;
    const bits = content.readUInt32LE(1);
    return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
  },
  VP8X: (content) =>
    content.length === 10
      ? { width: content.readUIntLE(4, 3) + 1, height: content.readUIntLE(7, 3) + 1 }
      : undefined,
};
