import { crc32 } from 'node:zlib';
import { expect } from 'chai';
import { LOGO_MAX_BYTES, readLogo } from '../../../../../src/features/sso/logo.ts';
import { IMAGES } from '../../../../support/sso/branding/images.ts';

const [PNG, JPEG, WEBP] = ['image/png', 'image/jpeg', 'image/webp'];
const SCRIPT = Buffer.from('<script>alert(1)</script>');
const bytesOf = (name: keyof typeof IMAGES) => Buffer.from(IMAGES[name], 'base64');
const dataUri = (type: string | undefined, bytes: Buffer) =>
  `data:${type};base64,${bytes.toString('base64')}`;

/** A chunk of a PNG file, with its checksum. */
function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}
const SIGNATURE = bytesOf('png').subarray(0, 8);
const header = (width: number, height: number) => {
  const data = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0]);
  data.writeUInt32BE(width, 0);
  data.writeUInt32BE(height, 4);
  return chunk('IHDR', data);
};
const END = chunk('IEND', Buffer.alloc(0));
const png = (...chunks: Buffer[]) => Buffer.concat([SIGNATURE, ...chunks]);

/** The same image with other bytes in one place. */
function altered(name: keyof typeof IMAGES, change: (bytes: Buffer) => void): Buffer {
  const bytes = bytesOf(name);
  change(bytes);
  return bytes;
}

/** A WebP file whose length in front is right, with something behind its chunks. */
function longerWebp(tail: Buffer): Buffer {
  const bytes = Buffer.concat([bytesOf('webp'), tail]);
  bytes.writeUInt32LE(bytes.length - 8, 4);
  return bytes;
}

describe('a logo', () => {
  for (const [name, type] of [
    ['png', PNG],
    ['jpeg', JPEG],
    ['progressiveJpeg', JPEG],
    ['jpegWithRestarts', JPEG],
    ['webp', WEBP],
    ['losslessWebp', WEBP],
    ['transparentWebp', WEBP],
    ['animatedWebp', WEBP],
  ] as const) {
    const text = dataUri(type, bytesOf(name));

    it(`may be a ${name}`, () => {
      expect(readLogo(text)).to.deep.equal({ url: text });
    });

    it(`is refused if it is a ${name} that was cut off anywhere, or goes on`, () => {
      const bytes = bytesOf(name);
      for (let length = 0; length < bytes.length; length++) {
        const cut = readLogo(dataUri(type, bytes.subarray(0, length)));
        expect(cut, `${length} of ${bytes.length}`).to.have.property('fault');
      }
      for (const tail of [Buffer.from([0]), SCRIPT, bytes]) {
        expect(readLogo(dataUri(type, Buffer.concat([bytes, tail])))).to.have.property('fault');
      }
    });

    it(`is refused if it is a ${name} under another type`, () => {
      for (const other of [PNG, JPEG, WEBP].filter((one) => one !== type)) {
        expect(readLogo(dataUri(other, bytesOf(name)))).to.have.property('fault');
      }
    });
  }

  const pixels = chunk('IDAT', Buffer.from('pixels'));
  const forged: Record<string, [type: string | undefined, bytes: Buffer]> = {
    'the signature of a PNG with a script behind it': [PNG, Buffer.concat([SIGNATURE, SCRIPT])],
    'a PNG with a wrong checksum': [PNG, altered('png', (bytes) => bytes.writeUInt8(1, 30))],
    'a PNG without pixels': [PNG, png(header(8, 8), END)],
    'a PNG without a header': [PNG, png(pixels, END)],
    'a PNG with two headers': [PNG, png(header(8, 8), header(8, 8), pixels, END)],
    'a PNG with an end that holds something': [PNG, png(header(8, 8), pixels, chunk('IEND', SCRIPT))],
    'a PNG of no width': [PNG, png(header(0, 8), pixels, END)],
    'a PNG whose chunk claims four gigabytes': [
      PNG,
      png(header(8, 8), Buffer.from('ffffffff49444154', 'hex'), pixels, END),
    ],
    'a PNG that unfolds into 65,000 × 65,000 pixels': [PNG, png(header(65_000, 65_000), pixels, END)],
    'a JPEG that is markers only': [JPEG, Buffer.from('ffd8ffd9', 'hex')],
    'a JPEG whose segment is longer than the file': [JPEG, Buffer.from('ffd8ffe0ffff00ffd9', 'hex')],
    'a JPEG whose segment has no length': [JPEG, Buffer.from('ffd8ffe00000ffd9', 'hex')],
    'a script between the markers of a JPEG': [
      JPEG,
      Buffer.concat([Buffer.from('ffd8', 'hex'), SCRIPT, Buffer.from('ffd9', 'hex')]),
    ],
    'a JPEG of fill bytes': [JPEG, Buffer.concat([Buffer.from('ffd8', 'hex'), Buffer.alloc(200_000, 0xff)])],
    'a WebP whose length is wrong': [WEBP, altered('webp', (bytes) => bytes.writeUInt32LE(4, 4))],
    'a WebP of an unknown first chunk': [WEBP, altered('webp', (bytes) => bytes.write('EVIL', 12, 'latin1'))],
    'a WebP whose pixels have no start code': [WEBP, altered('webp', (bytes) => bytes.writeUInt8(0, 23))],
    'a WebP with a script inside of its length': [WEBP, longerWebp(SCRIPT)],
    'a sound file': [WEBP, altered('webp', (bytes) => bytes.write('WAVE', 8, 'latin1'))],
    'an SVG as PNG': [PNG, Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>')],
    'a web page as JPEG': [JPEG, Buffer.from('<!doctype html><script>alert(1)</script>')],
    nothing: [PNG, Buffer.alloc(0)],
  };
  for (const [what, [type, bytes]] of Object.entries(forged)) {
    it(`is not ${what}`, () => {
      expect(readLogo(dataUri(type, bytes))).to.have.property('fault');
    });
  }

  it('has at most 256 kB, to the byte', () => {
    const empty = png(header(8, 8), chunk('IDAT', Buffer.alloc(1)), END);
    const ofSize = (size: number) =>
      dataUri(PNG, png(header(8, 8), chunk('IDAT', Buffer.alloc(size - empty.length + 1)), END));
    expect(readLogo(ofSize(LOGO_MAX_BYTES))).to.have.property('url');
    expect(readLogo(ofSize(LOGO_MAX_BYTES + 1))).to.deep.equal({ fault: 'must have at most 262144 bytes' });
  });

  for (const [text, fault] of [
    ['data:image/svg+xml;base64,PHN2Zy8+', 'must not be an SVG'],
    ['data:image/svg+xml,<svg/>', 'must be a base64 data: URI of'],
    ['data:text/html;base64,PHN2Zy8+', 'must be a base64 data: URI of'],
    ['data:image/gif;base64,R0lGODlhAQABAAAAACw=', 'must be a base64 data: URI of'],
    [`data:image/png;charset=x;base64,${IMAGES.png}`, 'must be a base64 data: URI of'],
    [`data:image/png,${IMAGES.png}`, 'must be a base64 data: URI of'],
    [`data:image/png;base64,${IMAGES.png.slice(0, 20)}" onerror="x`, 'must be valid base64'],
    [`data:image/png;base64,${IMAGES.png}\n`, 'must be valid base64'],
    [`data:image/png;base64,${IMAGES.png.replaceAll('=', '')}=====`, 'must be valid base64'],
    ['http://cdn.example.com/logo.png', 'must be an https:// URL or a data: URI'],
    ['javascript:alert(1)', 'must be an https:// URL or a data: URI'],
    ['//cdn.example.com/logo.png', 'must be an https:// URL or a data: URI'],
    ['logo.png', 'must be an https:// URL or a data: URI'],
    ['', 'must be an https:// URL or a data: URI'],
    ['https://user:secret@cdn.example.com/logo.png', 'must not contain a user name or password'],
    [`https://cdn.example.com/${'a'.repeat(2100)}`, 'must have at most 2048 characters'],
  ] as const) {
    it(`is not ${text.slice(0, 40).trim()}`, () => {
      expect(readLogo(text)).to.have.property('fault').that.includes(fault);
    });
  }

  it('may be an https:// URL, of which nothing can leave an attribute of HTML', () => {
    expect(readLogo('https://cdn.example.com/logo.png?v=2')).to.deep.equal({
      url: 'https://cdn.example.com/logo.png?v=2',
    });
    expect(readLogo('https://cdn.example.com/"onload="alert(1)')).to.deep.equal({
      url: 'https://cdn.example.com/%22onload=%22alert(1)',
    });
  });
});
