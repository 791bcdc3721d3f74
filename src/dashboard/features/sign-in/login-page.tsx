import { Anchor, Button, Divider, Image, PasswordInput, Stack, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { ApiError, send, type Answer } from '../../api/index.ts';
import { beginSession, useSession } from '../../session.ts';
import {
  asError,
  EMAIL_INPUT,
  Failure,
  focusOnArrival,
  Loading,
  useSubmit,
  formatWord,
  TextLink,
  Notice,
} from '../../ui/index.ts';
import { PasskeyButton, signInByPasskey, signInWith, usePasskeyOffer } from './passkey-sign-in.tsx';
import { PublicCard, type PendingSignIn, ToPage, useRegistration, SecondFactorCard } from './public-card.tsx';

const route = getRouteApi('/public/login');

type LoginContext = Answer<'GET /auth/login-context'>;

/** Sign-in by password and second factor, by a passkey, or by the identity provider of the organization. */
export function LoginPage() {
  const { redirect, ended, error, reason } = route.useSearch();
  const session = useSession();
  const [pending, setPending] = useState<PendingSignIn>();
  const context = useQuery({
    queryKey: ['login-context'],
    queryFn: ({ signal }) => send('GET /auth/login-context', {}, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  const registration = useRegistration();
  if (session.state === 'signed_in') return <ToPage path={safePath(redirect)} />;
  if (session.state === 'opening') return <Loading what="Signing in" />;
  // Wait before showing the form: replacing it by single sign-on would lose what was typed.
  if (context.isPending) return <Loading what="Opening the sign-in" />;
  if (pending !== undefined) {
    return <SecondFactorCard pending={pending} onBack={() => setPending(undefined)} />;
  }
  const branding = context.data?.branding;
  return (
    <PublicCard title={branding?.headline ?? 'Sign in to Muster'} logo={<Logo url={branding?.logoUrl} />}>
      {ended === true && (
        <Notice tone="info">Your session has ended. Sign in again to go on where you were.</Notice>
      )}
      {error !== undefined && (
        <Notice tone="bad" role="alert" title="The single sign-on has failed">
          {ssoFailureText(reason)}
        </Notice>
      )}
      {session.state === 'signed_out' && session.failure !== undefined && <Failure error={session.failure} />}
      {session.state === 'unreachable' && (
        <Notice tone="warning" role="alert">
          The server cannot be reached. Check the network of this computer, and whether Muster is running.
        </Notice>
      )}
      <Choices context={context.data} onSecondFactor={setPending} redirect={safePath(redirect)} />
      {registration.data?.enabled === true && (
        <TextLink size="sm" to="/register">
          Register your company
        </TextLink>
      )}
    </PublicCard>
  );
}

/** The dashboard loads no images from elsewhere. */
function Logo({ url }: { url: string | null | undefined }) {
  if (url == null || !url.startsWith('data:image/')) return null;
  return <Image src={url} alt="" h={48} w="auto" fit="contain" style={{ alignSelf: 'flex-start' }} />;
}

function Choices({
  context,
  onSecondFactor,
  redirect,
}: {
  context: LoginContext | undefined;
  onSecondFactor: (pending: PendingSignIn) => void;
  redirect: string;
}) {
  const sso = context?.partnerSso ?? null;
  const color = context?.branding?.accentColor ?? undefined;
  const [showsPassword, setShowsPassword] = useState(false);
  const hidesPassword = sso?.enforceSSO === true && !showsPassword;
  return (
    <Stack>
      {sso !== null && (
        <>
          <Button
            component="a"
            href={withRedirect(sso.loginUrl, redirect)}
            size="sm"
            {...(color === undefined ? {} : { color })}
            {...(hidesPassword ? { ref: focusOnArrival } : {})}
          >
            Sign in with {sso.providerName}
          </Button>
          {hidesPassword ? (
            <Anchor component="button" size="sm" onClick={() => setShowsPassword(true)}>
              Use a password
            </Anchor>
          ) : (
            <Divider label="or" />
          )}
        </>
      )}
      {!hidesPassword && <PasswordForm color={color} onSecondFactor={onSecondFactor} redirect={redirect} />}
    </Stack>
  );
}

function PasswordForm({
  color,
  onSecondFactor,
  redirect,
}: {
  color: string | undefined;
  onSecondFactor: (pending: PendingSignIn) => void;
  redirect: string;
}) {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const byPassword = useSubmit(async () => {
    const answer = await send('POST /auth/login', { body: { email: email.trim(), password } });
    if (answer.mfaRequired) onSecondFactor(answer);
    else await beginSession(answer.tokens);
  });
  const [refused, setRefused] = useState<Error>();
  const endOffer = usePasskeyOffer(
    (credential) => void signInWith(credential).catch((thrown: unknown) => setRefused(asError(thrown))),
  );
  const byPasskey = useSubmit(async () => {
    endOffer();
    await signInByPasskey();
  });
  const failure = byPassword.failure ?? byPasskey.failure ?? refused;
  const sso = ssoUrlIn(failure);
  return (
    <form onSubmit={byPassword.onSubmit}>
      <Stack>
        <TextInput
          label="E-mail address"
          {...EMAIL_INPUT}
          autoComplete="username webauthn"
          value={email}
          onChange={(event) => setEmail(event.currentTarget.value)}
          required
          ref={focusOnArrival}
          size="sm"
        />
        <PasswordInput
          label="Password"
          autoComplete="current-password"
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
          required
          size="sm"
        />
        {failure !== undefined && <Failure error={failure} />}
        {sso !== undefined && (
          <Button component="a" href={withRedirect(sso, redirect)} variant="light" size="sm">
            Go to your single sign-on
          </Button>
        )}
        <Button
          type="submit"
          loading={byPassword.isBusy}
          size="sm"
          {...(color === undefined ? {} : { color })}
        >
          Sign in
        </Button>
        <PasskeyButton
          label="Sign in with a passkey"
          isBusy={byPasskey.isBusy}
          onClick={byPasskey.onSubmit}
        />
        <TextLink size="sm" to="/forgot-password">
          I have forgotten my password
        </TextLink>
      </Stack>
    </form>
  );
}

/** If the organization demands single sign-on, the refusal of the password says where to sign in. */
function ssoUrlIn(failure: Error | undefined): string | undefined {
  if (!(failure instanceof ApiError) || failure.code !== 'SSO_REQUIRED') return undefined;
  const { details } = failure;
  if (typeof details !== 'object' || details === null || !('loginUrl' in details)) return undefined;
  return typeof details.loginUrl === 'string' ? details.loginUrl : undefined;
}

function withRedirect(loginUrl: string, redirect: string): string {
  const url = new URL(loginUrl, window.location.origin);
  url.searchParams.set('redirect', redirect);
  return url.href;
}

/** A path of this dashboard; the overview in place of anything that could lead elsewhere. */
function safePath(path: string | undefined): string {
  if (path === undefined || !path.startsWith('/')) return '/';
  const url = new URL(path, window.location.origin);
  return url.origin === window.location.origin ? url.pathname + url.search : '/';
}

/** Texts for the reasons of a refused sign-in that a person can act on. Other reasons are shown by their name. */
const TEXTS: Readonly<Record<string, string>> = {
  domain_not_proven:
    'It is not proved that your mail domain belongs to this organization. Sign in with your password and link the identity in your profile; or ask an administrator to verify the domain (POST /sso/domains).',
  configurer_has_less:
    'You have more permissions than the person who has configured this identity provider. Ask an administrator with all permissions to save its settings once more.',
  invitation_required: 'You have no account here yet. Ask an administrator for an invitation.',
  account_unknown: 'You have no account here yet. Ask an administrator for an invitation.',
  session_unknown: 'The sign-in has taken too long, or was begun in another browser. Begin it again.',
  provider_changed: 'The settings of the identity provider have just been changed. Begin again.',
};

/** Texts for a failed single sign-on, by the reason in the address (SPEC 7): each says what the person can do. */
function ssoFailureText(reason: string | undefined): string {
  if (reason === undefined) return 'Try again, or ask your administrator.';
  if (Object.hasOwn(TEXTS, reason)) return TEXTS[reason] ?? '';
  return `${formatWord(reason)}. Try again; if it stays so, send this reason to your administrator.`;
}
