import {
  ReleaseArchitecture,
  ReleaseComponent,
  ReleaseSystem,
  ReleaseTarget,
} from '../../../protocol/index.ts';

/** What a release is for, as devices and people name it. */

export const Component = ReleaseComponent;
export type Component = ReleaseComponent;
export const OperatingSystem = ReleaseSystem;
export type OperatingSystem = ReleaseSystem;
export const Architecture = ReleaseArchitecture;
export type Architecture = ReleaseArchitecture;
export const Target = ReleaseTarget;
export type Target = ReleaseTarget;

export type ReleaseName = Target & { version: string };
