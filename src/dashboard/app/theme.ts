import { createTheme, type CSSVariablesResolver } from '@mantine/core';

/** Dense by default, with the fonts of the system: nothing is fetched from elsewhere. */
export const theme = createTheme({
  primaryColor: 'blue',
  // Light text on the middle shade is too faint to read (WCAG 2.2, 1.4.3).
  primaryShade: { light: 8, dark: 8 },
  autoContrast: true,
  respectReducedMotion: true,
  defaultRadius: 'sm',
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace',
  components: {
    Button: { defaultProps: { size: 'xs' } },
    TextInput: { defaultProps: { size: 'xs' } },
    PasswordInput: { defaultProps: { size: 'xs' } },
    NumberInput: { defaultProps: { size: 'xs' } },
    Textarea: { defaultProps: { size: 'xs' } },
    Autocomplete: { defaultProps: { size: 'xs' } },
    Select: { defaultProps: { size: 'xs' } },
    MultiSelect: { defaultProps: { size: 'xs' } },
    TagsInput: { defaultProps: { size: 'xs' } },
    Checkbox: { defaultProps: { size: 'xs' } },
    Switch: { defaultProps: { size: 'xs' } },
    SegmentedControl: { defaultProps: { size: 'xs' } },
    Modal: { defaultProps: { closeButtonProps: { 'aria-label': 'Close' } } },
    Drawer: { defaultProps: { closeButtonProps: { 'aria-label': 'Close' } } },
    Table: { defaultProps: { fz: 'sm' } },
    Tooltip: { defaultProps: { openDelay: 300, withArrow: true } },
  },
});

/** Small text in these colours is too faint as Mantine has it (WCAG 2.2, 1.4.3: at least 4.5 to 1). */
export const readableColors: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    '--mantine-color-dimmed': '#5c636a',
    '--mantine-color-error': '#a82222',
    // What lies below blue text that the pointer is over.
    '--mantine-color-blue-light-hover': '#c2e5ff',
    '--mantine-color-teal-light-color': '#06674a',
    '--mantine-color-orange-light-color': '#9c3309',
    '--mantine-color-red-light-color': '#a82222',
    '--mantine-color-yellow-light-color': '#7d4400',
    '--mantine-color-green-light-color': '#1f6a2f',
  },
  dark: { '--mantine-color-dimmed': '#a6a6a6', '--mantine-color-error': '#ff8787' },
});
