import { crc32 } from 'node:zlib';

/** The size of the image file, before base64. */
export const LOGO_MAX_BYTES = 256 * 1024;

/** Limited, because a small file can decompress to more pixels than a browser has memory for. */
const MAX_PIXELS_A_SIDE = 4096;

const URL_MAX = 2048;

const DATA_URI = /^data:([a-z]+\/[a-z+.-]+);base64,/;

export type Logo = { url: string } | { fault: string };

/** Checks a logo. Returns the text to be stored, or the rule that the logo breaks. */
export function readLogo(text: string): Logo {
  if (text.startsWith('data:')) return readImage(text);
  return readUrl(text);
}

function readUrl(text: string): Logo {
  if (text.length > URL_MAX) return { fault: `must have at most ${URL_MAX} characters as a URL` };
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:') return { fault: 'must be an https:// URL or a data: URI' };
  if (url.username !== '' || url.password !== '') {
    return { fault: 'must not contain a user name or password' };
  }
  return { url: url.href };
}

function readImage(text: string): Logo {
  const [head = '', declared = ''] = DATA_URI.exec(text) ?? [];
  if (declared.startsWith('image/svg')) {
    return { fault: 'must not be an SVG, which can contain scripts; use PNG, JPEG or WebP' };
  }
  const type = IMAGE_TYPES.find((known) => known === declared);
  if (type === undefined) {
    return { fault: `must be a base64 data: URI of one of these types: ${IMAGE_TYPES.join(', ')}` };
  }
  const fault = imageFault(type, text.slice(head.length));
  return fault === undefined ? { url: text } : { fault };
}

function imageFault(type: ImageType, base64: string): string | undefined {
  if (base64.length > (LOGO_MAX_BYTES / 3) * 4 + 4) return `must have at most ${LOGO_MAX_BYTES} bytes`;
  const bytes = Buffer.from(base64, 'base64');
  // Node's decoder ignores characters that are not base64.
  if (bytes.toString('base64') !== base64) return 'must be valid base64';
  if (bytes.length > LOGO_MAX_BYTES) return `must have at most ${LOGO_MAX_BYTES} bytes`;
  const size = imageSize(type, bytes);
  if (size === undefined) return `must be a complete image of the type ${type}, without data after its end`;
  const isLarge = Math.max(size.width, size.height) > MAX_PIXELS_A_SIDE;
  return isLarge ? `must be at most ${MAX_PIXELS_A_SIDE} pixels wide and high` : undefined;
}

/**
 * Checks that bytes are exactly one complete image of a type. Data after the end of the image is refused, because it
 * could be a second, hidden file. The pixels are not decoded.
 */

interface ImageSize {
  width: number;
  height: number;
}

const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/webp'] as const;

type ImageType = (typeof IMAGE_TYPES)[number];

/** The size of an image in pixels. Undefined if the bytes are not exactly one image of the type. */
function imageSize(type: ImageType, bytes: Buffer): ImageSize | undefined {
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
