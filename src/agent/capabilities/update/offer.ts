import { UpgradableComponent, type Upgrade } from '../../../protocol/index.ts';
import { ownPlatform } from '../../os/installation/layout.ts';
import { SignedRelease } from '../../os/installation/release-check.ts';
import { UpdateFault } from './update-fault.ts';

/** An offer that this machine could install, as the manifest that its signature must be of. */
export interface Offer {
  component: UpgradableComponent;
  release: SignedRelease;
  url: string;
  isPinned: boolean;
}

/** The largest programs that are downloaded: many times the size of what exists. */
const SIZE_MAX: Readonly<Record<UpgradableComponent, number>> = {
  agent: 64 * 1024 * 1024,
  watchdog: 512 * 1024 * 1024,
};

/**
 * Reads an offer. The manifest is made for the platform of this machine, so that a signature of a release for another
 * platform does not hold. Throws `UpdateFault`. Pure but for the platform.
 */
export function readOffer(upgrade: Upgrade): Offer {
  const component = UpgradableComponent.safeParse(upgrade.component);
  if (!component.success) {
    throw new UpdateFault(
      'UNKNOWN_COMPONENT',
      `This agent does not know the component "${upgrade.component.slice(0, 50)}".`,
      false,
    );
  }
  const { version, sha256, size, signature, keyId, url } = upgrade;
  if (signature === undefined || keyId === undefined || size === undefined) {
    throw new UpdateFault('SIGNATURE_MISSING', 'The release was offered without a signature.', false);
  }
  const manifest = { component: component.data, version, ...ownPlatform(), sha256, size };
  const release = SignedRelease.safeParse({ manifest, signature, keyId });
  if (!release.success) {
    const [issue] = release.error.issues;
    throw new UpdateFault(
      'INVALID_OFFER',
      `The offer is invalid: ${issue?.path.join('.')} ${issue?.message}.`,
      false,
    );
  }
  if (size > SIZE_MAX[component.data]) {
    throw new UpdateFault(
      'TOO_LARGE',
      `The release has ${size} bytes; at most ${SIZE_MAX[component.data]} are installed.`,
      false,
    );
  }
  return { component: component.data, release: release.data, url, isPinned: upgrade.pinned === true };
}
