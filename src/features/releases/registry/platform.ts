import { z } from 'zod';

/** What a release is for: a component of the agent, on an operating system and a processor. */

export const Component = z.enum(['agent', 'watchdog', 'helper', 'backup']);
export type Component = z.infer<typeof Component>;

export const OperatingSystem = z.enum(['linux', 'windows', 'macos']);
export type OperatingSystem = z.infer<typeof OperatingSystem>;

export const Architecture = z.enum(['x64', 'arm64']);
export type Architecture = z.infer<typeof Architecture>;

export const Target = z.object({ component: Component, os: OperatingSystem, architecture: Architecture });
export type Target = z.infer<typeof Target>;

export type ReleaseName = Target & { version: string };
