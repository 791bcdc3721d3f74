import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { AppError } from '../../../platform/errors.ts';
import type { GuardedFetch } from '../../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../../platform/outbound/outbound-error.ts';
import { type GithubRelease, releaseOf } from './github-release.ts';

export interface GithubApiOptions {
  /** GITHUB_RELEASES_URL, without a slash at the end. */
  url: string;
  token: string | undefined;
}

/** A page of 100 releases with all their files and notes. */
const PAGE_MAX_BYTES = 16 << 20;
const PAGES_MAX = 10;
const MEDIA_TYPES = ['application/vnd.github+json', 'application/json'];
/** What GitHub asks for where it names no time. */
const PAUSE_MS = 60_000;
/** It never asks for more than an hour; a broken clock could. */
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

/** How long GitHub asks to wait; `undefined` where it does not. */
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
