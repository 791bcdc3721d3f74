import { Alert, Anchor, Button, Divider, Image, PasswordInput, Stack, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import { ApiError, send, type Answer } from '../../api/index.ts';
import { beginSession, useSession } from '../../session/index.ts';
import { EMAIL_INPUT, Failure, focusOnArrival, Loading, useSubmit } from '../../ui/index.ts';
import { PublicCard } from './public-card.tsx';
import { safePath } from './safe-path.ts';
import { SecondFactorForm } from './second-factor-form.tsx';
import { ssoFailureText } from './sso-failure.ts';
import { ToPage } from './to-page.tsx';
import { useRegistration } from './use-registration.ts';

const route = getRouteApi('/public/login');

type LoginContext = Answer<'GET /auth/login-context'>;

/** Sign-in by password and second factor, or by the identity provider of the organization. */
export function LoginPage() {
  const { redirect, ended, error, reason } = route.useSearch();
  const session = useSession();
  const [pending, setPending] = useState<string>();
  const context = useQuery({
    queryKey: ['login-context'],
    queryFn: ({ signal }) => send('GET /auth/login-context', {}, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  const registration = useRegistration();
  if (session.state === 'signed_in') return <ToPage path={safePath(redirect)} />;
  if (session.state === 'opening') return <Loading what="Signing in" />;
  // A form that is replaced by a single sign-on would have taken what somebody types.
  if (context.isPending) return <Loading what="Opening the sign-in" />;
  if (pending !== undefined) {
    return (
      <PublicCard
        title="Two-factor authentication"
        text="Enter the code of your authenticator app, or a recovery code."
      >
        <SecondFactorForm tempToken={pending} onBack={() => setPending(undefined)} />
      </PublicCard>
    );
  }
  const branding = context.data?.branding;
  return (
    <PublicCard title={branding?.headline ?? 'Sign in to Muster'} logo={<Logo url={branding?.logoUrl} />}>
      {ended === true && (
        <Alert color="blue">Your session has ended. Sign in again to go on where you were.</Alert>
      )}
      {error !== undefined && (
        <Alert color="red" role="alert" title="The single sign-on has failed">
          {ssoFailureText(reason)}
        </Alert>
      )}
      {session.state === 'signed_out' && session.failure !== undefined && <Failure error={session.failure} />}
      {session.state === 'unreachable' && (
        <Alert color="orange" role="alert">
          The server cannot be reached. Check the network of this computer, and whether Muster is running.
        </Alert>
      )}
      <Choices context={context.data} onSecondFactor={setPending} redirect={safePath(redirect)} />
      {registration.data?.enabled === true && (
        <Anchor size="sm" renderRoot={(props) => <Link {...props} to="/register" />}>
          Register your company
        </Anchor>
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
  onSecondFactor: (token: string) => void;
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
  onSecondFactor: (token: string) => void;
  redirect: string;
}) {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const { onSubmit, isBusy, failure } = useSubmit(async () => {
    const answer = await send('POST /auth/login', { body: { email: email.trim(), password } });
    if (answer.mfaRequired) onSecondFactor(answer.tempToken);
    else await beginSession(answer.tokens);
  });
  const sso = ssoUrlIn(failure);
  return (
    <form onSubmit={onSubmit}>
      <Stack>
        <TextInput
          label="E-mail address"
          {...EMAIL_INPUT}
          autoComplete="username"
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
        <Button type="submit" loading={isBusy} size="sm" {...(color === undefined ? {} : { color })}>
          Sign in
        </Button>
        <Anchor size="sm" renderRoot={(props) => <Link {...props} to="/forgot-password" />}>
          I have forgotten my password
        </Anchor>
      </Stack>
    </form>
  );
}

/** Where the organization demands single sign-on, the refusal of the password says where it is. */
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
