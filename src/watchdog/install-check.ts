import { checkInstalled } from '../agent/os/installation/installed-release.ts';
import { ownPlatform } from '../agent/os/installation/layout.ts';
import { changeProven, provenReleases } from '../agent/os/installation/proven-releases.ts';
import { ReleaseRefused } from '../agent/os/installation/release-check.ts';
import { loadTrustedKeys, pemById } from '../agent/os/installation/trusted-keys.ts';
import type { InstallRequest } from '../agent/os/supervision/messages.ts';

/** Checks what an agent wants to have installed: the watchdog does not rely on its agent. A refusal, or nothing. */
export async function refusalOf(
  place: { programs: string; dataDir: string },
  { component, version, isPinned }: InstallRequest,
): Promise<{ code: string; message: string } | undefined> {
  const { programs, dataDir } = place;
  try {
    const { floor } = await provenReleases(dataDir, component);
    await checkInstalled(programs, version, {
      component,
      platform: ownPlatform(),
      keys: pemById(await loadTrustedKeys(dataDir)),
      floor: isPinned ? undefined : floor,
    });
    if (isPinned) await changeProven(dataDir, component, (proven) => ({ ...proven, pinned: version }));
    return undefined;
  } catch (error) {
    if (error instanceof ReleaseRefused) return { code: error.code, message: error.message };
    throw error;
  }
}
