/** Opens the palette, whose code is loaded after the page. */
let open: () => void = () => undefined;

export const openPalette = (): void => open();

export function paletteOpensWith(opener: () => void): void {
  open = opener;
}
