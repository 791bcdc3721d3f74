import { z } from 'zod';
import { clock } from '../../clock.ts';
import { AppError } from '../../platform/errors.ts';
import type { GuardedFetch } from '../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../platform/outbound/outbound-error.ts';
import { shortened, storableText } from '../../protocol/index.ts';
import { compareVersions, isPrerelease, Version, type ReleaseName } from './release-name.ts';
import { createHash } from 'node:crypto';
import { ProgramScan } from './program-scan.ts';
import type { ReceivedFile, ReleaseFiles } from './release-files.ts';

/** A release as the API of GitHub describes it: what is needed of it. */

/** As much as the table of releases keeps. */
const NOTES_MAX = 2000;
const ASSETS_MAX = 1000;

export const Asset = z.object({
  name: z.string().max(255),
  size: z.number().int().nonnegative(),
  /** `uploaded`; any other if it is not there yet. */
  state: z.string().default('uploaded'),
  /** The hash by GitHub itself, such as `sha256:…`; absent for files from before 2025-06. */
  digest: z.string().nullish(),
  /** By the API, with a token. */
  url: z.url().max(1000),
  /** For everyone, also for devices. It does not change. */
  browser_download_url: z.url().max(1000),
});
export type Asset = z.infer<typeof Asset>;

const Answer = z.object({
  tag_name: z.string(),
  draft: z.boolean(),
  prerelease: z.boolean(),
  body: z.string().nullish(),
  assets: z.array(z.unknown()).max(ASSETS_MAX),
});

export interface GithubRelease {
  version: string;
  /** By the version or by the mark of the release: people forget the mark. */
  isPrerelease: boolean;
  notes: string | null;
  assets: Asset[];
}

/** `undefined` for a draft, for a tag that is no version, and for what is no release at all. */
function releaseOf(answer: unknown): GithubRelease | undefined {
  const parsed = Answer.safeParse(answer);
  if (!parsed.success || parsed.data.draft) return undefined;
  const { tag_name: tag, prerelease, body, assets } = parsed.data;
  const version = Version.safeParse(tag.replace(/^v/, ''));
  if (!version.success) return undefined;
  const notes = shortened(storableText(body ?? '').trim(), NOTES_MAX);
  return {
    version: version.data,
    isPrerelease: prerelease || isPrerelease(version.data),
    notes: notes === '' ? null : notes,
    assets: assets.flatMap((asset) => Asset.safeParse(asset).data ?? []),
  };
}

/** The highest stable one by its version; what GitHub calls the latest goes by dates and by a mark. */
export function latestStable(releases: readonly GithubRelease[]): GithubRelease | undefined {
  return releases
    .filter((release) => !release.isPrerelease)
    .reduce<GithubRelease | undefined>(
      (highest, one) =>
        highest === undefined || compareVersions(one.version, highest.version) > 0 ? one : highest,
      undefined,
    );
}

interface GithubApiOptions {
  /** GITHUB_RELEASES_URL, without a slash at the end. */
  url: string;
  token: string | undefined;
}

/** A page of 100 releases with all their files and notes. */
const PAGE_MAX_BYTES = 16 << 20;
const PAGES_MAX = 10;
const MEDIA_TYPES = ['application/vnd.github+json', 'application/json'];
/** The waiting time if GitHub names none. */
const PAUSE_MS = 60_000;
/** GitHub never asks for more than an hour, but a broken clock could. */
const PAUSE_MAX_MS = 2 * 3_600_000;

const Page = z.array(z.unknown()).max(1000);

interface KnownPage {
  etag: string | undefined;
  releases: GithubRelease[];
  next: string | undefined;
}

/** The releases of a repository, as the API of GitHub gives them. It is asked as rarely as its limits make wise. */
export class GithubApi {
  readonly #outbound: Pick<GuardedFetch, 'fetch'>;
  readonly #options: GithubApiOptions;
  /** By URL: a page that has not changed is not counted against the limit, and not sent again. */
  #pages = new Map<string, KnownPage>();
  #pausedUntil = 0;

  constructor(outbound: Pick<GuardedFetch, 'fetch'>, options: GithubApiOptions) {
    this.#outbound = outbound;
    this.#options = options;
  }

  /** All published releases whose tag is a version, of at most the newest 1000. */
  async list(): Promise<GithubRelease[]> {
    const pages = new Map<string, KnownPage>();
    const releases: GithubRelease[] = [];
    let url: string | undefined = `${this.#options.url}?per_page=100`;
    for (let count = 0; url !== undefined && count < PAGES_MAX && !pages.has(url); count++) {
      const page: KnownPage = await this.#page(url);
      pages.set(url, page);
      releases.push(...page.releases);
      url = page.next;
    }
    this.#pages = pages;
    return releases;
  }

  /** The release of a version, whose tag is the version with or without a `v`. */
  async find(version: string): Promise<GithubRelease | undefined> {
    for (const tag of [`v${version}`, version]) {
      const answer = await this.#call(`${this.#options.url}/tags/${encodeURIComponent(tag)}`);
      const release = answer.status === 404 ? undefined : releaseOf(await jsonOf(answer));
      if (release?.version === version) return release;
    }
    return undefined;
  }

  async #page(url: string): Promise<KnownPage> {
    const known = this.#pages.get(url);
    const answer = await this.#call(url, known?.etag === undefined ? {} : { 'if-none-match': known.etag });
    if (answer.status === 304 && known !== undefined) return known;
    if (answer.status === 404) {
      throw new AppError('unavailable', 'GITHUB_RELEASES_URL leads to no repository that can be read.');
    }
    const parsed = Page.safeParse(await jsonOf(answer));
    if (!parsed.success) throw unreadable();
    return {
      etag: answer.headers.get('etag') ?? undefined,
      releases: parsed.data.flatMap((one) => releaseOf(one) ?? []),
      next: this.#nextOf(answer.headers.get('link')),
    };
  }

  /** The token goes to the API only, so a next page elsewhere is not followed. */
  #nextOf(link: string | null): string | undefined {
    const [, next] = /<([^<>]{1,2000})>\s*;[^,<]*\brel="?next"?/.exec(link ?? '') ?? [];
    if (next === undefined) return undefined;
    const url = URL.parse(next, this.#options.url);
    if (url?.origin !== new URL(this.#options.url).origin) throw unreadable();
    return url.href;
  }

  async #call(url: string, headers: Record<string, string> = {}): Promise<Response> {
    if (clock.now() < this.#pausedUntil) throw limited(this.#pausedUntil - clock.now());
    const { origin } = new URL(this.#options.url);
    const answer = await this.#send(url, {
      accept: MEDIA_TYPES,
      maxBytes: PAGE_MAX_BYTES,
      // A repository that was renamed redirects to its present address.
      maxRedirects: 3,
      mayRedirectTo: (target) => target.origin === origin,
      headers: { ...this.#authorization(), 'x-github-api-version': '2022-11-28', ...headers },
    });
    const pauseMs = pauseOf(answer);
    if (pauseMs !== undefined) {
      this.#pausedUntil = clock.now() + pauseMs;
      throw limited(pauseMs);
    }
    if (answer.ok || answer.status === 304 || answer.status === 404) return answer;
    const hint = answer.status === 401 || answer.status === 403 ? ' Check GITHUB_TOKEN.' : '';
    throw new AppError(
      'unavailable',
      `The API at GITHUB_RELEASES_URL answered with ${answer.status}.${hint}`,
    );
  }

  async #send(...call: Parameters<GuardedFetch['fetch']>): Promise<Response> {
    try {
      return await this.#outbound.fetch(...call);
    } catch (error) {
      if (!(error instanceof OutboundError)) throw error;
      throw new AppError('unavailable', `The API at GITHUB_RELEASES_URL: ${error.message}`, { cause: error });
    }
  }

  #authorization(): Record<string, string> {
    const { token } = this.#options;
    return token === undefined ? {} : { authorization: `Bearer ${token}` };
  }
}

/** How long GitHub asks to wait; `undefined` if it does not. */
function pauseOf({ status, headers }: Response): number | undefined {
  const retryAfter = headers.get('retry-after');
  const isSpent = headers.get('x-ratelimit-remaining') === '0';
  const isLimited = status === 429 || (status === 403 && (isSpent || retryAfter !== null));
  if (!isLimited) return undefined;
  // By its own clock, which ours may differ from.
  const now = Date.parse(headers.get('date') ?? '') || clock.now();
  const until =
    retryAfter === null
      ? Number(headers.get('x-ratelimit-reset') ?? Number.NaN) * 1000 - now
      : /^\d+$/.test(retryAfter)
        ? Number(retryAfter) * 1000
        : Date.parse(retryAfter) - now;
  return until > 0 ? Math.min(until, PAUSE_MAX_MS) : PAUSE_MS;
}

const limited = (retryAfterMs: number) =>
  new AppError('rate_limited', 'The limit of requests to the API of GitHub is reached.', { retryAfterMs });

const unreadable = () =>
  new AppError('unavailable', 'The API at GITHUB_RELEASES_URL sent an answer that could not be read.');

async function jsonOf(answer: Response): Promise<unknown> {
  try {
    return await answer.json();
  } catch {
    throw unreadable();
  }
}

/** The file that lists the SHA-256 of all files of a release, as `sha256sum` writes it. */
export const CHECKSUMS = 'SHA256SUMS';

/** Hash, then two blanks, or a blank and an asterisk for a file that was read in binary mode. */
const LINE = /^([0-9a-f]{64}) [ *](?:\.\/)?(\S+)$/i;

export type Checksum = { sha256: string } | 'ambiguous';

/**
 * Reads such a list. A line of another form is ignored, so that its file counts as not listed. A name that stands there
 * twice is ambiguous, also with the same hash.
 */
export function parseChecksums(text: string): ReadonlyMap<string, Checksum> {
  const found = new Map<string, Checksum>();
  for (const line of text.replace(/^\uFEFF/, '').split(/\r?\n/)) {
    const [, sha256, name] = LINE.exec(line.trimEnd()) ?? [];
    if (sha256 === undefined || name === undefined) continue;
    found.set(name, found.has(name) ? 'ambiguous' : { sha256: sha256.toLowerCase() });
  }
  return found;
}

/** A file that cannot be registered. The message is for the administrator. */
export class AssetFault extends Error {}

interface DownloadParts {
  outbound: Pick<GuardedFetch, 'open'>;
  /** GITHUB_RELEASES_URL. */
  apiUrl: string;
  token: string | undefined;
  /** Hosts that files may come from, such as `github.com` or `*.githubusercontent.com`. */
  fileHosts: readonly string[];
}

/** Sees each piece of a file once, in order. */
type Sink<T> = (pieces: AsyncIterable<Buffer>) => Promise<T>;

/**
 * Downloads files of a release, each of them once and never as a whole in memory.
 * @throws AssetFault
 */
export class AssetDownloads {
  readonly #parts: DownloadParts;

  constructor(parts: DownloadParts) {
    this.#parts = parts;
  }

  /** For a small file. */
  async bytes(asset: Asset, viaApi: boolean): Promise<Buffer> {
    return this.#read(asset, viaApi, async (pieces) => {
      const read: Buffer[] = [];
      for await (const piece of pieces) read.push(piece);
      return Buffer.concat(read);
    });
  }

  /** Reads a file as devices will, and keeps nothing of it. */
  async assertServed(asset: Asset, name: ReleaseName, sha256: string): Promise<void> {
    const hash = createHash('sha256');
    const scan = new ProgramScan();
    await this.#read(asset, false, async (pieces) => {
      for await (const piece of pieces) {
        hash.update(piece);
        scan.add(piece);
      }
      assertHash(hash.digest('hex'), sha256);
      scan.assertIs(name);
    });
  }

  /** Keeps a file, which has to be registered or discarded. */
  async receive(files: ReleaseFiles, asset: Asset, name: ReleaseName, sha256: string): Promise<ReceivedFile> {
    return this.#read(asset, true, (pieces) => files.receive(pieces, { name, sha256, length: asset.size }));
  }

  /** @param viaApi  with the token, if there is one: the only way to the files of a private repository */
  async #read<T>(asset: Asset, viaApi: boolean, sink: Sink<T>): Promise<T> {
    const { apiUrl, token, outbound } = this.#parts;
    // The token goes to the API and nowhere else, whatever the API names as its address.
    const isApi = viaApi && token !== undefined && new URL(asset.url).origin === new URL(apiUrl).origin;
    const url = isApi ? asset.url : asset.browser_download_url;
    if (!this.#isFileHost(new URL(url))) {
      throw new AssetFault(
        `Its address is at ${new URL(url).hostname}, which GITHUB_FILE_HOSTS does not name.`,
      );
    }
    try {
      const answer = await outbound.open(url, {
        maxRedirects: 5,
        mayRedirectTo: (target) => this.#isFileHost(target),
        headers: {
          accept: 'application/octet-stream',
          ...(isApi ? { authorization: `Bearer ${token}` } : {}),
        },
      });
      if (answer.status !== 200) {
        answer.leave();
        throw new AssetFault(`The download was answered with ${answer.status}.`);
      }
      return await sink(ofSize(answer.body, asset.size));
    } catch (error) {
      throw faultOf(error);
    }
  }

  #isFileHost({ hostname }: URL): boolean {
    return this.#parts.fileHosts.some((host) =>
      host.startsWith('*.') ? hostname.endsWith(host.slice(1)) : hostname === host,
    );
  }
}

/** Passes on what has the announced length, and fails as soon as it has another. */
async function* ofSize(pieces: AsyncIterable<Buffer>, size: number): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.length;
    if (bytes > size) throw new AssetFault(`The download has more than the ${size} bytes that GitHub names.`);
    yield piece;
  }
  if (bytes < size) throw new AssetFault(`The download ended after ${bytes} of ${size} bytes.`);
}

function assertHash(sha256: string, expected: string): void {
  if (sha256 === expected) return;
  throw new AssetFault(`The download has the SHA-256 ${sha256}, and not ${expected}.`);
}

/** The fault of one file only: the others are tried all the same. */
function faultOf(error: unknown): unknown {
  if (error instanceof OutboundError || error instanceof AppError) {
    return new AssetFault(error.message, { cause: error });
  }
  return error;
}

/** The releases of the project on GitHub, and the downloads of their files. */
export const githubReleases = ({
  outbound,
  filesOutbound,
  url,
  token,
  fileHosts,
}: {
  outbound: Pick<GuardedFetch, 'fetch'>;
  filesOutbound: DownloadParts['outbound'];
  url: string;
  token: string | undefined;
  fileHosts: readonly string[];
}) => ({
  api: new GithubApi(outbound, { url, token }),
  downloads: new AssetDownloads({ outbound: filesOutbound, apiUrl: url, token, fileHosts }),
});
