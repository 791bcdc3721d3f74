import { IMAGE_TYPES, imageSize, type ImageType } from './image-structure.ts';

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
