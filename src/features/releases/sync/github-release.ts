import { z } from 'zod';
import { storableText } from '../../../protocol/index.ts';
import { compareVersions, isPrerelease, Version } from '../registry/version.ts';

/** A release as the API of GitHub describes it: what is needed of it. */

/** As much as the table of releases keeps. */
const NOTES_MAX = 2000;
const ASSETS_MAX = 1000;

export const Asset = z.object({
  name: z.string().max(255),
  size: z.number().int().nonnegative(),
  /** `uploaded`; any other where it is not there yet. */
  state: z.string().default('uploaded'),
  /** Of GitHub itself, such as `sha256:…`; absent for files from before 2025-06. */
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
export function releaseOf(answer: unknown): GithubRelease | undefined {
  const parsed = Answer.safeParse(answer);
  if (!parsed.success || parsed.data.draft) return undefined;
  const { tag_name: tag, prerelease, body, assets } = parsed.data;
  const version = Version.safeParse(tag.replace(/^v/, ''));
  if (!version.success) return undefined;
  const notes = storableText((body ?? '').slice(0, NOTES_MAX)).trim();
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
