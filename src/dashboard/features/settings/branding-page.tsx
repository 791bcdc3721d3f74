import {
  Button,
  ColorInput,
  FileButton,
  Grid,
  Group,
  Image,
  Paper,
  Stack,
  Text,
  TextInput,
  Title,
} from '@mantine/core';
import { IconUpload } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type LoginBranding } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import { Loaded } from '../../ui/index.ts';
import { SettingsForm, PARTNER_ONLY, SettingsFrame } from './settings-frame.tsx';

/** How the sign-in page greets the people of the provider. */
export function BrandingPage() {
  return (
    <SettingsFrame
      title="Branding"
      description="How the sign-in page looks for your people."
      requires={PARTNER_ONLY}
    >
      <Branding />
    </SettingsFrame>
  );
}

function Branding() {
  const branding = useQuery(apiQuery('GET /partners/me/login-branding'));
  return (
    <Loaded query={branding} what="Reading the branding">
      {(data) => <BrandingForm branding={data} />}
    </Loaded>
  );
}

const orNull = (value: string) => (value.trim() === '' ? null : value.trim());
const COLOR = /^#[0-9a-f]{6}$/i;

function BrandingForm({ branding }: { branding: LoginBranding }) {
  const [logoUrl, setLogoUrl] = useState(branding.logoUrl ?? '');
  const [accentColor, setAccentColor] = useState(branding.accentColor ?? '');
  const [headline, setHeadline] = useState(branding.headline ?? '');
  const refusal = useRefusal({ scopes: ['partner'], permission: 'organizations:write' });
  const save = useApiChange('PUT /partners/me/login-branding', {
    refreshes: ['GET /partners/me/login-branding'],
  });
  const isFile = logoUrl.startsWith('data:');
  return (
    <Grid>
      <Grid.Col span={{ base: 12, md: 6 }}>
        <SettingsForm
          label="Branding"
          refusal={refusal}
          submit={() =>
            save.mutateAsync({
              body: {
                logoUrl: orNull(logoUrl),
                accentColor: orNull(accentColor),
                headline: orNull(headline),
              },
            })
          }
        >
          {(faults) => (
            <>
              <TextInput
                label="Headline"
                placeholder="Welcome to …"
                value={headline}
                onChange={(event) => setHeadline(event.currentTarget.value)}
                error={faults['headline']}
              />
              <ColorInput
                size="xs"
                label="Accent color"
                placeholder="#0b7285"
                format="hex"
                value={accentColor}
                onChange={setAccentColor}
                error={faults['accentColor']}
                eyeDropperButtonProps={{ 'aria-label': 'Pick a color from the screen' }}
              />
              <TextInput
                label="Logo"
                description="The https:// address of an image, or a PNG, JPEG or WebP file."
                value={isFile ? 'A file' : logoUrl}
                readOnly={isFile}
                onChange={(event) => setLogoUrl(event.currentTarget.value)}
                error={faults['logoUrl']}
              />
              <Group gap="xs">
                <FileButton
                  accept="image/png,image/jpeg,image/webp"
                  onChange={(file) => {
                    if (file !== null) void dataUrlOf(file).then(setLogoUrl);
                  }}
                >
                  {(props) => (
                    <Button
                      {...props}
                      size="compact-xs"
                      variant="default"
                      leftSection={<IconUpload size={14} aria-hidden />}
                    >
                      Choose a file
                    </Button>
                  )}
                </FileButton>
                {logoUrl !== '' && (
                  <Button size="compact-xs" variant="subtle" onClick={() => setLogoUrl('')}>
                    Remove the logo
                  </Button>
                )}
              </Group>
            </>
          )}
        </SettingsForm>
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 6 }}>
        <Preview
          logoUrl={logoUrl}
          accentColor={COLOR.test(accentColor) ? accentColor : undefined}
          headline={headline}
        />
      </Grid.Col>
    </Grid>
  );
}

const dataUrlOf = (file: File): Promise<string> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener('load', () => resolve(typeof reader.result === 'string' ? reader.result : ''));
    reader.addEventListener('error', () => reject(new Error('The file cannot be read.')));
    reader.readAsDataURL(file);
  });

/** Only looks like the sign-in page. The dashboard loads no images from elsewhere, so those are shown by a word. */
function Preview({
  logoUrl,
  accentColor,
  headline,
}: {
  logoUrl: string;
  accentColor: string | undefined;
  headline: string;
}) {
  return (
    <Stack gap="xs" component="section" aria-label="Preview of the sign-in page">
      <Title order={2} size="h5">
        Preview
      </Title>
      <Paper withBorder shadow="sm" p="xl" maw={400}>
        <Stack>
          {logoUrl.startsWith('data:image/') && (
            <Image
              src={logoUrl}
              alt="The logo"
              h={48}
              w="auto"
              fit="contain"
              style={{ alignSelf: 'flex-start' }}
            />
          )}
          {logoUrl !== '' && !logoUrl.startsWith('data:') && (
            <Text size="sm">The image at {logoUrl} stands here.</Text>
          )}
          <Text size="xl" fw={600}>
            {headline.trim() === '' ? 'Sign in to Muster' : headline}
          </Text>
          <Stack gap="xs" aria-hidden inert>
            <TextInput label="E-mail address" size="sm" readOnly tabIndex={-1} />
            <TextInput label="Password" size="sm" readOnly tabIndex={-1} />
            <Button
              component="div"
              autoContrast
              {...(accentColor === undefined ? {} : { color: accentColor })}
            >
              Sign in
            </Button>
          </Stack>
        </Stack>
      </Paper>
    </Stack>
  );
}
