import { lazy } from 'react';

export { signInPages } from './sign-in.pages.ts';

/** Seldom needed, so it is loaded then. */
export const ReplaceSession = lazy(() =>
  import('./replace-session.tsx').then(({ ReplaceSession: component }) => ({ default: component })),
);
