import path from 'node:path';
import type { Request, RequestHandler, Response } from 'express';
import { escapeHtml } from './socket-reference.ts';
import { isKnownTo } from './file-answer.ts';
import { requestState } from './request-state.ts';
import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

/** One file of a built page, with its compressed forms if they are worth it. */
interface PageFile {
  /** The hash of the content; the forms of one file differ by the name of their encoding. */
  hash: string;
  plain: Buffer;
  br?: Buffer;
  gzip?: Buffer;
}

/**
 * The files of a built page by the path that a browser asks for, such as `/assets/main-Ab12.js`. They are few and small,
 * so they are kept in memory: a request names an entry of this map, and never a file of the machine.
 */
export type PageFiles = ReadonlyMap<string, PageFile>;

const PAGE = '/index.html';

const COMPRESSED = [
  ['.br', 'br'],
  ['.gz', 'gzip'],
] as const;
/** Files that gain nothing by compression: images and fonts are compressed already. */
const COMPRESSIBLE = /\.(css|html|js|json|map|svg|txt|webmanifest|xml)$/;
/** Below this, a compressed form saves no packet. */
const WORTH_IT = 1024;

/** Reads a built page. `undefined` if the folder holds none. Names with a dot at the beginning are left out. */
export async function readPageFiles(folder: string): Promise<PageFiles | undefined> {
  const contents = new Map<string, Buffer>();
  for (const file of await filesBelow(folder)) contents.set(file, await readFile(path.join(folder, file)));
  const files = new Map<string, PageFile>();
  for (const [name, plain] of contents) {
    if (isCompressedForm(name, contents)) continue;
    const file: PageFile = { hash: createHash('sha256').update(plain).digest('base64url'), plain };
    for (const [ending, encoding] of COMPRESSED) {
      const compressed = contents.get(name + ending);
      if (compressed !== undefined) file[encoding] = compressed;
    }
    files.set(`/${name}`, file);
  }
  return files.has(PAGE) ? files : undefined;
}

const isCompressedForm = (name: string, all: ReadonlyMap<string, Buffer>) =>
  COMPRESSED.some(([ending]) => name.endsWith(ending) && all.has(name.slice(0, -ending.length)));

/** Writes the compressed forms beside the files of a built page. */
export async function compressPageFiles(folder: string): Promise<void> {
  const names = (await filesBelow(folder)).filter((name) => COMPRESSIBLE.test(name));
  await Promise.all(
    names.map(async (name) => {
      const plain = await readFile(path.join(folder, name));
      if (plain.length < WORTH_IT) return;
      const size = { [constants.BROTLI_PARAM_SIZE_HINT]: plain.length };
      const [br, gz] = await Promise.all([
        promisify(brotliCompress)(plain, {
          params: { ...size, [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY },
        }),
        promisify(gzip)(plain, { level: 9 }),
      ]);
      await writeFile(path.join(folder, `${name}.br`), br);
      await writeFile(path.join(folder, `${name}.gz`), gz);
    }),
  );
}

/** The highest one takes five times as long for two per cent. */
const BROTLI_QUALITY = 9;

/** With forward slashes. */
async function filesBelow(folder: string): Promise<string[]> {
  let entries;
  try {
    entries = await readdir(folder, { recursive: true, withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)).split(path.sep).join('/'))
    .filter((name) => !name.split('/').some((part) => part.startsWith('.')))
    .sort();
}

/** Why there is no page, for the person who asked for it. */
export interface Notice {
  title: string;
  text: string;
  /** The command that helps, if there is one. */
  command?: string;
  /** After how many seconds the browser asks again. */
  againAfter: number;
}

export type PageState = { files: PageFiles } | { notice: Notice };

/** A page of one file with client-side routes: what it consists of at the moment. */
export interface SinglePage {
  current(): PageState | Promise<PageState>;
}

/**
 * Serves a built single-page application beside everything else: its files by their names, and the page itself for each
 * path that a browser opens. It comes after all other routes, whose paths are `reserved`: they and all below them are
 * never the page. What is not served here goes on to the next handler.
 */
export function singlePage(page: SinglePage, reserved: readonly string[]): RequestHandler {
  return async (request, response, next) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return next();
    const asked = request.path;
    if (!isPlain(asked) || isBelow(asked, reserved)) return next();
    const state = await page.current();
    const file = 'files' in state ? state.files.get(asked) : undefined;
    if (file !== undefined && asked !== PAGE) return sendFile(request, response, asked, file);
    if (isBelow(asked, [ASSETS])) return next();
    // A program that mistypes a path of the API gets its answer in JSON.
    response.vary('Accept');
    if (asked !== '/' && request.accepts(['json', 'html']) !== 'html') return next();
    requestState(request).route = '/';
    if ('notice' in state) return sendNotice(response, state.notice);
    const index = state.files.get(PAGE);
    if (index === undefined) return next();
    sendFile(request, response, PAGE, index);
  };
}

/** The build gives each file below it a name with the hash of its content. */
const ASSETS = '/assets';
const FOREVER = 'public, max-age=31536000, immutable';
const ASK_AGAIN = 'no-cache';

/** No empty segment, and none that begins with a dot, however it is written. */
const isPlain = (asked: string) => !/\/\/|\\|%5c|%2f|%00|\/(\.|%2e)/i.test(asked);

/** As Express does, which ignores the difference of capital and small letters. */
function isBelow(asked: string, places: readonly string[]): boolean {
  const path = asked.toLowerCase();
  return places.some((place) => path === place || path.startsWith(`${place}/`));
}

/** Always whole: a `Range` is not for files of this size, and may be ignored. */
function sendFile(request: Request, response: Response, name: string, file: PageFile): void {
  const isAsset = isBelow(name, [ASSETS]);
  if (isAsset) requestState(request).route = ASSETS;
  else requestState(request).route = '/';
  const encoding = (['br', 'gzip'] as const).find(
    (each) => file[each] !== undefined && request.acceptsEncodings(each) === each,
  );
  const tag = encoding === undefined ? file.hash : `${file.hash}-${encoding}`;
  response.vary('Accept-Encoding');
  response.setHeader('Cache-Control', isAsset ? FOREVER : ASK_AGAIN);
  response.setHeader('ETag', `"${tag}"`);
  if (isKnownTo(request, tag)) {
    response.status(304).end();
    return;
  }
  const body = (encoding === undefined ? undefined : file[encoding]) ?? file.plain;
  if (encoding !== undefined) response.setHeader('Content-Encoding', encoding);
  response.type(path.extname(name)).setHeader('Content-Length', body.length);
  response.end(body);
}

function sendNotice(response: Response, { title, text, command, againAfter }: Notice): void {
  const line = command === undefined ? '' : `<p><code>${escapeHtml(command)}</code></p>`;
  response
    .status(503)
    .type('html')
    .setHeader('Cache-Control', 'no-store')
    .setHeader('Retry-After', String(againAfter))
    .end(
      `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><meta http-equiv="refresh" content="${againAfter}">
<title>${escapeHtml(title)}</title><link rel="icon" href="data:,"><style>${NOTICE_STYLE}</style></head>
<body><main><h1>${escapeHtml(title)}</h1><p>${escapeHtml(text)}</p>${line}</main></body></html>`,
    );
}

const NOTICE_STYLE =
  'body{font:16px/1.5 system-ui,sans-serif;margin:0;display:grid;min-height:100vh;place-items:center}' +
  'main{max-width:34rem;padding:2rem}h1{font-size:1.4rem}code{font-size:1rem}';
