"""What every part of tfos may need and what knows no other part."""
