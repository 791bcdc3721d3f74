import { lazy } from 'react';
import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { publicRoute } from '../../routing.ts';

const LoginSearch = z.object({
  /** The page to show after the sign-in. */
  redirect: z.string().optional().catch(undefined),
  /** The session has ended while the page was open. */
  ended: z.boolean().optional().catch(undefined),
  /** Why a single sign-on has failed (SPEC 7). */
  error: z.string().optional().catch(undefined),
  reason: z.string().optional().catch(undefined),
});

const loginRoute = createRoute({
  getParentRoute: () => publicRoute,
  path: '/login',
  validateSearch: LoginSearch,
  staticData: { title: 'Sign in' },
  component: lazyRouteComponent(() => import('./login-page.tsx'), 'LoginPage'),
});

const forgotPasswordRoute = createRoute({
  getParentRoute: () => publicRoute,
  path: '/forgot-password',
  staticData: { title: 'Forgotten password' },
  component: lazyRouteComponent(() => import('./mailed-link-pages.tsx'), 'ForgotPasswordPage'),
});

// The pages that mails lead to. Their token stands behind the #, so that no server log has it.

const resetPasswordRoute = createRoute({
  getParentRoute: () => publicRoute,
  path: '/reset-password',
  staticData: { title: 'New password' },
  component: lazyRouteComponent(() => import('./mailed-link-pages.tsx'), 'ResetPasswordPage'),
});

const acceptInvitationRoute = createRoute({
  getParentRoute: () => publicRoute,
  path: '/accept-invite',
  staticData: { title: 'Invitation' },
  component: lazyRouteComponent(() => import('./mailed-link-pages.tsx'), 'AcceptInvitationPage'),
});

const verifyEmailRoute = createRoute({
  getParentRoute: () => publicRoute,
  path: '/verify-email',
  staticData: { title: 'Confirm your address' },
  component: lazyRouteComponent(() => import('./mailed-link-pages.tsx'), 'VerifyEmailPage'),
});

const registerRoute = createRoute({
  getParentRoute: () => publicRoute,
  path: '/register',
  staticData: { title: 'Register' },
  component: lazyRouteComponent(() => import('./register-page.tsx'), 'RegisterPage'),
});

export const signInPages = [
  loginRoute,
  forgotPasswordRoute,
  resetPasswordRoute,
  acceptInvitationRoute,
  verifyEmailRoute,
  registerRoute,
] as const;

/** Seldom needed, so it is loaded then. */
export const ReplaceSession = lazy(() =>
  import('./replace-session.tsx').then(({ ReplaceSession: component }) => ({ default: component })),
);
