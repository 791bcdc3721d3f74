import { createHash } from 'node:crypto';
import { AppError } from '../../../platform/errors.ts';
import type { GuardedFetch } from '../../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../../platform/outbound/outbound-error.ts';
import { ProgramScan } from '../registry/program-scan.ts';
import type { ReleaseName } from '../registry/platform.ts';
import type { ReceivedFile, ReleaseFiles } from '../registry/release-files.ts';
import type { Asset } from './github-release.ts';

/** A file that cannot be registered. The message is for the administrator. */
export class AssetFault extends Error {}

export interface DownloadParts {
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

  /** @param viaApi  with the token, where there is one: the only way to the files of a private repository */
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

/** Of one file only: the others are tried all the same. */
function faultOf(error: unknown): unknown {
  if (error instanceof OutboundError || error instanceof AppError) {
    return new AssetFault(error.message, { cause: error });
  }
  return error;
}
